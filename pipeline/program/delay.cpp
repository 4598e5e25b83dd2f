// From a program whose RECVs post to one whose RECVs wait.
//
//   lowered   1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1      B0 needs no F1
//   delayed   1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1
#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

#include "pipeline/program/flow_table.hpp"
#include "pipeline/program/lowering.hpp"

namespace penstock {

namespace {

/// One rank's actions, taken in order; RECVs are kept back until an action needs them.
class Delay {
 public:
  Delay(const Program& program, int rank) : program_(program), rank_(rank) {}

  std::vector<Action> run() {
    for (const Action& action : program_.ranks[static_cast<size_t>(rank_)]) {
      if (is_receive(action.kind)) {
        waiting_[channel(action)].push_back(action);
        continue;
      }
      for_each_part(action, [&](const Action& part) { release_needed(part); });
      result_.push_back(action);
    }
    for (auto& [channel, receives] : waiting_) release(receives, receives.size());
    return std::move(result_);
  }

 private:
  using Channel = std::pair<int, bool>;  // sending rank, gradients

  Channel channel(const Action& receive) const {
    return {program_.rank_of_stage[static_cast<size_t>(peer_stage(receive))],
            receive.kind == Kind::recv_backward};
  }

  static bool needs(const Action& compute, const Action& receive) {
    const bool same = compute.stage == receive.stage && compute.microbatch == receive.microbatch;
    return same && (receive.kind == Kind::recv_backward ? is_input_backward(compute.kind)
                                                        : compute.kind == Kind::forward);
  }

  /// The RECVs up to the last that the compute needs: a channel's order stays.
  void release_needed(const Action& compute) {
    for (auto& [channel, receives] : waiting_) {
      const auto last =
          std::find_if(receives.rbegin(), receives.rend(),
                       [&](const Action& receive) { return needs(compute, receive); });
      release(receives, static_cast<size_t>(receives.rend() - last));
    }
  }

  void release(std::deque<Action>& receives, size_t count) {
    for (; count > 0; --count) {
      result_.push_back(receives.front());
      receives.pop_front();
    }
  }

  const Program& program_;
  const int rank_;
  std::vector<Action> result_;
  std::map<Channel, std::deque<Action>> waiting_;
};

}  // namespace

Program delay_receives(Program lowered) {
  for (int rank = 0; rank < lowered.rank_count(); ++rank) {
    std::vector<Action> delayed = Delay(lowered, rank).run();
    lowered.ranks[static_cast<size_t>(rank)] = std::move(delayed);
  }
  return lowered;
}

}  // namespace penstock
