#include "simulator/engine/deadlock.hpp"

#include <fmt/format.h>

namespace penstock {

namespace {

std::string opposite(const Action& action) {
  Action other{.stage = peer_stage(action), .microbatch = action.microbatch, .peer = action.stage};
  switch (action.kind) {
    case Kind::send_forward: other.kind = Kind::recv_forward; break;
    case Kind::recv_forward: other.kind = Kind::send_forward; break;
    case Kind::send_backward: other.kind = Kind::recv_backward; break;
    default: other.kind = Kind::send_backward; break;
  }
  return to_string(other);
}

class Report {
 public:
  Report(const Program& program, const CompiledProgram& compiled, const EngineResult& result)
      : program_(program), compiled_(compiled), result_(result) {}

  std::string text() const {
    std::string lines;
    for (int rank = 0; rank < compiled_.rank_count(); ++rank) {
      if (done(rank)) continue;
      const int32_t at = result_.ranks[static_cast<size_t>(rank)].next;
      lines += fmt::format("{}rank {} waits at {} for {}", lines.empty() ? "" : "\n  ", rank,
                           to_string(action_of_task(program_, compiled_, at)), reason(rank));
    }
    return lines;
  }

 private:
  bool done(int rank) const {
    const auto r = static_cast<size_t>(rank);
    return result_.ranks[r].next == compiled_.rank_begin[r + 1];
  }

  std::string reason(int rank) const {
    const int32_t awaited = result_.ranks[static_cast<size_t>(rank)].waits_for;
    if (awaited == RankTimes::agreement) return absent_ranks();
    const Message& message = compiled_.messages[static_cast<size_t>(awaited)];
    const Channel& channel = compiled_.channels[static_cast<size_t>(message.channel)];
    const bool sends = channel.sender == rank;
    const int other = sends ? channel.receiver : channel.sender;
    const int32_t partner = sends ? message.receive_task : message.send_task;
    if (partner < 0) {
      const int32_t own = sends ? message.send_task : message.receive_task;
      return fmt::format("{} of rank {}, which is not in its program",
                         opposite(action_of_task(program_, compiled_, own)), other);
    }
    return fmt::format("{} of rank {}, which comes {} actions after where that rank waits",
                       to_string(action_of_task(program_, compiled_, partner)), other,
                       partner - result_.ranks[static_cast<size_t>(other)].next);
  }

  /// The ranks that have not reached their first OPT.
  std::string absent_ranks() const {
    std::string list;
    for (int rank = 0; rank < compiled_.rank_count(); ++rank) {
      const int32_t at = result_.ranks[static_cast<size_t>(rank)].next;
      if (done(rank) || compiled_.tasks[static_cast<size_t>(at)].op == Task::Op::agree) continue;
      list += fmt::format("{}{}", list.empty() ? "" : ", ", rank);
    }
    return "OPT of rank " + list;
  }

  const Program& program_;
  const CompiledProgram& compiled_;
  const EngineResult& result_;
};

}  // namespace

std::string deadlock_report(const Program& program, const CompiledProgram& compiled,
                            const EngineResult& result) {
  return Report(program, compiled, result).text();
}

}  // namespace penstock
