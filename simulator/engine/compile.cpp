#include "simulator/engine/compile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "simulator/engine/awaited.hpp"

namespace penstock {

namespace {

/// A transfer as the channel sees it: from which stage to which.
struct Way {
  int from, to;
  bool backward;
};

Way way_of(const Action& action) {
  const int peer = peer_stage(action);
  const bool backward = action.kind == Kind::send_backward || action.kind == Kind::recv_backward;
  return is_send(action.kind) ? Way{action.stage, peer, backward}
                              : Way{peer, action.stage, backward};
}

class Compiler {
 public:
  Compiler(const Program& program, const Costs& costs, const Network& network)
      : program_(program), costs_(costs), network_(network), link_(network.link()) {
    if (costs.stages.size() < program.rank_of_stage.size()) {
      throw std::invalid_argument("compile: a stage of the program has no costs");
    }
    route_ends_.resize(program.rank_of_stage.size());
  }

  CompiledProgram run() {
    count_messages();
    note_shared_cores();
    for (int rank = 0; rank < program_.rank_count(); ++rank) add_tasks(rank);
    out_.rank_begin.push_back(static_cast<int32_t>(out_.tasks.size()));
    return std::move(out_);
  }

 private:
  /// The end of a route at one stage.
  struct RouteEnd {
    Kind kind;
    int peer;
    int32_t channel;
    int64_t bytes;
  };
  struct Counts {
    int32_t sends = 0, receives = 0;
  };

  void count_messages() {
    size_t actions = 0;
    int microbatches = 0;  // of those that are transferred
    for (const auto& rank : program_.ranks) {
      actions += rank.size();
      for (const Action& action : rank) {
        if (!is_transfer(action.kind)) continue;
        microbatches = std::max(microbatches, action.microbatch + 1);
        Counts& counts = counts_[route_end(action).channel];
        ++(is_send(action.kind) ? counts.sends : counts.receives);
      }
    }
    out_.tasks.reserve(actions);
    int32_t first = 0;
    for (size_t c = 0; c < out_.channels.size(); ++c) {
      Channel& channel = out_.channels[c];
      channel.first = first;
      channel.count = std::max(counts_[c].sends, counts_[c].receives);
      first += channel.count;
      counts_[c] = {};
    }
    out_.messages.resize(static_cast<size_t>(first));
    add_routes();
    awaited_ = Awaited(program_.stage_count(), microbatches);
  }

  void add_routes() {
    std::vector<std::pair<int, int>> ends;
    for (const Channel& channel : out_.channels)
      ends.emplace_back(channel.sender, channel.receiver);
    std::vector<Route> routes = network_.routes(ends);
    for (size_t c = 0; c < routes.size(); ++c) out_.channels[c].route = std::move(routes[c]);
  }

  /// A core that one rank has for itself slows nobody.
  void note_shared_cores() {
    std::map<int, int> users;
    for (const auto& cores : costs_.cores) {
      for (const int core : cores) ++users[core];
    }
    for (const auto& cores : costs_.cores) {
      std::vector<int>& shared = out_.cores.emplace_back();
      for (const int core : cores) {
        if (users[core] > 1) shared.push_back(core);
      }
    }
    out_.core_count = users.empty() ? 0 : users.rbegin()->first + 1;
  }

  void add_tasks(int rank) {
    out_.rank_begin.push_back(static_cast<int32_t>(out_.tasks.size()));
    double& publish_s = out_.publish_s.emplace_back(0);
    double owed_s = 0;  // compute that transfers cost this rank and no task has taken yet
    bool agreed = false;
    sums_ = {};
    const auto& actions = program_.ranks[static_cast<size_t>(rank)];
    for (const Action& action : actions) sums_.left += action.kind == Kind::reduce_grad;
    for (const Action& action : actions) {
      if (is_transfer(action.kind)) {
        owed_s += add_transfer(action);
        continue;
      }
      if (action.kind == Kind::reduce_grad) {
        out_.tasks.push_back(reduction(action));
        if (sums_.left == 0) owed_s = 0;  // it falls beside sums
        continue;
      }
      const bool measured = costs_.measured_s.contains(action);  // with what is owed
      const double owed_here_s = std::exchange(owed_s, 0);
      Task task{.duration_s = costs_.duration_s(action) + (measured ? 0 : owed_here_s),
                .host_s = costs_.host_s(action),
                .message = awaited_.take(action, out_.messages)};
      if (action.kind != Kind::optimizer) {
        task.duration_s += std::exchange(sums_.owed_s, 0);
        sums_.compute = &action;
        sums_.compute_task = out_.tasks.size();
      }
      if (action.kind == Kind::optimizer)
        publish_s += costs_.stages[static_cast<size_t>(action.stage)].publish_s;
      if (action.kind == Kind::optimizer && !agreed) {
        task.op = Task::Op::agree;
        agreed = true;
        ++out_.agreeing_ranks;
      }
      out_.tasks.push_back(task);
    }
    for (const int32_t id : awaited_.take_rest(out_.messages)) {
      const int32_t receive = out_.messages[static_cast<size_t>(id)].receive_task;
      out_.tasks[static_cast<size_t>(receive)].op = Task::Op::receive;
    }
  }

  /// The rank's last REDUCE_GRAD also begins what waits for all of its backwards.
  Task reduction(const Action& action) {
    const StageCosts& stage = costs_.stages[static_cast<size_t>(action.stage)];
    Reduction reduction;
    begin_sums(action.stage, stage.sums, reduction);
    sums_.deferred_s += stage.reduce_s;
    if (--sums_.left == 0 && sums_.deferred_s > 0) reduction.sums.push_back({sums_.deferred_s, 0});
    out_.reductions.push_back(std::move(reduction));
    return {.message = static_cast<int32_t>(out_.reductions.size()) - 1, .op = Task::Op::reduce};
  }

  /// From the last sum to the first: what later ones add to the backward is left after earlier ones
  /// begin, too.
  void begin_sums(int stage, const std::vector<SumCosts>& sums, Reduction& reduction) {
    const double SumCosts::*const left = left_of_last_compute(stage);
    double added_s = 0;
    for (auto sum = sums.rbegin(); sum != sums.rend(); ++sum) {
      double left_s = 0, beside_s = 0;
      if (left != nullptr) {
        const double backward_s = out_.tasks[sums_.compute_task].duration_s;
        left_s = std::min((*sum).*left, backward_s);
        beside_s = std::min(sum->compute_s, left_s);
      }
      added_s += beside_s;
      sums_.owed_s += sum->compute_s - beside_s;
      reduction.sums.push_back({sum->sum_s, left_s > 0 ? left_s + added_s : 0});
    }
    std::ranges::reverse(reduction.sums);
    if (added_s > 0) out_.tasks[sums_.compute_task].duration_s += added_s;
  }

  /// The member that says what is left of the rank's latest compute, where that is the stage's
  /// backward.
  double SumCosts::*left_of_last_compute(int stage) const {
    double SumCosts::*left = nullptr;
    if (sums_.compute == nullptr) return left;
    for_each_part(*sums_.compute, [&](const Action& part) {
      if (part.stage != stage) return;
      if (part.kind == Kind::backward) left = &SumCosts::left_of_backward_s;
      if (part.kind == Kind::backward_weight) left = &SumCosts::left_of_weight_s;
    });
    return left;
  }

  /// Returns the compute time that the transfer costs the rank.
  double add_transfer(const Action& action) {
    const RouteEnd& at = route_end(action);
    const bool send = is_send(action.kind);
    Counts& counts = counts_[static_cast<size_t>(at.channel)];
    const Channel& channel = out_.channels[static_cast<size_t>(at.channel)];
    const int32_t id = channel.first + (send ? counts.sends++ : counts.receives++);
    Message& message = out_.messages[static_cast<size_t>(id)];
    message.channel = at.channel;
    message.bytes = at.bytes;
    message.transfer_s = channel.route.transfer_s(at.bytes);
    (send ? message.send_task : message.receive_task) = static_cast<int32_t>(out_.tasks.size());
    out_.tasks.push_back({.message = id, .op = send ? Task::Op::send : Task::Op::post});
    if (!send) awaited_.add(action, id, out_.messages);
    return static_cast<double>(at.bytes) *
           (send ? link_.sender_s_per_byte : link_.receiver_s_per_byte);
  }

  const RouteEnd& route_end(const Action& action) {
    const int stages = program_.stage_count();
    const int peer = peer_stage(action);
    if (action.stage < 0 || action.stage >= stages || peer < 0 || peer >= stages) {
      throw InputError("program",
                       fmt::format("{} is a transfer between stages {} and {}", to_string(action),
                                   action.stage, peer),
                       fmt::format("The program has stages 0 to {}.", stages - 1));
    }
    auto& ends = route_ends_[static_cast<size_t>(action.stage)];
    for (const RouteEnd& known : ends) {
      if (known.kind == action.kind && known.peer == peer) return known;
    }
    return ends.emplace_back(
        RouteEnd{action.kind, peer, channel_of(action), costs_.message_bytes(action)});
  }

  int32_t channel_of(const Action& action) {
    const Way way = way_of(action);
    const int sender = program_.rank_of_stage[static_cast<size_t>(way.from)];
    const int receiver = program_.rank_of_stage[static_cast<size_t>(way.to)];
    if (sender == receiver) {
      throw InputError(
          "program",
          fmt::format("{} is a transfer between two stages of rank {}", to_string(action), sender),
          "Leave it out: stages of one rank hand over in memory.");
    }
    const auto [at, added] = channel_ids_.try_emplace(std::tuple(sender, receiver, way.backward),
                                                      static_cast<int32_t>(out_.channels.size()));
    if (added) {
      out_.channels.push_back({.sender = sender, .receiver = receiver, .backward = way.backward});
      counts_.emplace_back();
    }
    return at->second;
  }

  const Program& program_;
  const Costs& costs_;
  const Network& network_;
  const Link& link_;
  CompiledProgram out_;
  std::vector<std::vector<RouteEnd>> route_ends_;  // per stage
  std::map<std::tuple<int, int, bool>, int32_t> channel_ids_;
  std::vector<Counts> counts_;  // per channel
  struct RankSums {
    int left = 0;                     // REDUCE_GRADs of the rank to come
    double deferred_s = 0;            // sums that wait for all backwards
    double owed_s = 0;                // compute of sums that no task has taken yet
    const Action* compute = nullptr;  // the latest, and its task
    size_t compute_task = 0;
  };
  RankSums sums_;  // of the rank whose tasks are added
  Awaited awaited_;
};

/// The k-th SEND of a channel has to be the one that its k-th RECV expects.
void check_pairs(const Program& program, const CompiledProgram& compiled) {
  for (const Message& message : compiled.messages) {
    if (message.send_task < 0 || message.receive_task < 0) continue;
    const Action& send = action_of_task(program, compiled, message.send_task);
    const Action& receive = action_of_task(program, compiled, message.receive_task);
    const Way out = way_of(send), in = way_of(receive);
    if (out.from == in.from && out.to == in.to && send.microbatch == receive.microbatch) continue;
    const Channel& channel = compiled.channels[static_cast<size_t>(message.channel)];
    throw InputError("program",
                     fmt::format("rank {} sends {} where rank {} receives {}", channel.sender,
                                 to_string(send), channel.receiver, to_string(receive)),
                     "Both ranks must list the transfers between them in the same order.");
  }
}

}  // namespace

int CompiledProgram::rank_of_task(int32_t task) const {
  const auto next = std::upper_bound(rank_begin.begin(), rank_begin.end() - 1, task);
  return static_cast<int>(next - rank_begin.begin()) - 1;
}

const Action& action_of_task(const Program& program, const CompiledProgram& compiled,
                             int32_t task) {
  const auto rank = static_cast<size_t>(compiled.rank_of_task(task));
  return program.ranks[rank][static_cast<size_t>(task - compiled.rank_begin[rank])];
}

CompiledProgram compile(const Program& program, const Costs& costs, const Network& network) {
  CompiledProgram compiled = Compiler(program, costs, network).run();
  check_pairs(program, compiled);
  return compiled;
}

}  // namespace penstock
