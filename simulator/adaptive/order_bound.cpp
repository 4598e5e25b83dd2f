#include "simulator/adaptive/order_bound.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace penstock {

namespace {

using Seconds = std::vector<double>;  // by stage

/// Work that can begin after its head; or, from the end on, with what follows it.
struct Work {
  double head_s = 0, work_s = 0;
};

/// When all of it is done at the earliest.
double done_s(std::vector<Work> work) {
  std::ranges::sort(work, {}, &Work::head_s);
  double now_s = 0;
  for (const auto& [head_s, work_s] : work) now_s = std::max(now_s, head_s) + work_s;
  return now_s;
}

class OrderBound {
 public:
  OrderBound(const AdaptiveProblem& problem, const StageLinks& links)
      : problem_(problem), links_(links), stages_(problem.rank_of_stage.size()) {
    for (const StageCosts& of : problem.costs.stages) {
      const double parts_s = of.backward_input_s + of.backward_weight_s;
      input_s_.push_back(std::min(of.backward_s, of.backward_input_s));
      backward_s_.push_back(std::min(of.backward_s, parts_s));
      extra_.push_back(of.backward_weight_s > 0 ? (parts_s - of.backward_s) / of.backward_weight_s
                                                : 0);
      // Once, of whatever microbatch takes least.
      forward_once_s_.push_back(of.forward_s + std::min(0.0, of.first_forward_s));
      input_once_s_.push_back(std::max(0.0, input_s_.back() + std::min(0.0, of.first_backward_s)));
    }
    find_heads();
    find_tails();
  }

  double run() const {
    double longest_s = 0;
    for (int rank = 0; rank < problem_.ranks; ++rank) longest_s = std::max(longest_s, rank_s(rank));
    return longest_s;
  }

 private:
  void find_heads() {
    forward_head_.assign(stages_, 0);
    input_head_.assign(stages_, 0);
    for (size_t stage = 0; stage < stages_; ++stage) {
      double& head_s = forward_head_[stage];
      for (const auto& [from, transfer_s] : links_.forward[stage]) {
        const auto f = static_cast<size_t>(from);
        head_s = std::max(head_s, forward_head_[f] + forward_once_s_[f] + transfer_s);
      }
    }
    for (size_t stage = stages_; stage-- > 0;) {
      double& head_s = input_head_[stage] = forward_head_[stage] + forward_once_s_[stage];
      for (const auto& [from, transfer_s] : links_.backward[stage]) {
        const auto f = static_cast<size_t>(from);
        head_s = std::max(head_s, input_head_[f] + input_once_s_[f] + transfer_s);
      }
    }
  }

  /// Tails of backwards are handed on from earlier stages, those of F from later ones.
  void find_tails() {
    passed_on_.assign(stages_, 0);
    input_tail_.assign(stages_, 0);
    forward_tail_.assign(stages_, 0);
    for (size_t stage = 0; stage < stages_; ++stage) {
      input_tail_[stage] = std::max(passed_on_[stage], backward_s_[stage] - input_s_[stage]);
      for (const auto& [from, transfer_s] : links_.backward[stage]) {
        double& tail_s = passed_on_[static_cast<size_t>(from)];
        tail_s = std::max(tail_s, transfer_s + input_once_s_[stage] + input_tail_[stage]);
      }
    }
    for (size_t stage = stages_; stage-- > 0;) {
      double& own_s = forward_tail_[stage];
      own_s = std::max(own_s, input_once_s_[stage] + input_tail_[stage]);
      for (const auto& [from, transfer_s] : links_.forward[stage]) {
        double& tail_s = forward_tail_[static_cast<size_t>(from)];
        tail_s = std::max(tail_s, transfer_s + forward_once_s_[stage] + own_s);
      }
    }
  }

  /// The seconds of all microbatches.
  double all(double each_s, double first_s) const {
    return problem_.microbatches * each_s + first_s;
  }

  /// No F counts as if it began later than a backward could, or as if less followed a backward than
  /// an F: so all backwards follow whatever F count, and their tails whatever backwards.
  double rank_s(int rank) const {
    constexpr double none = std::numeric_limits<double>::infinity();
    double backward_from_s = none, forward_tail_s = none, extra = 1, backwards_s = 0;
    std::vector<size_t> own;
    for (size_t stage = 0; stage < stages_; ++stage) {
      if (problem_.rank_of_stage[stage] != rank) continue;
      own.push_back(stage);
      backward_from_s = std::min(backward_from_s, input_head_[stage]);
      forward_tail_s = std::min(forward_tail_s, forward_tail_[stage]);
      extra = std::min(extra, std::max(0.0, extra_[stage]));
    }
    std::vector<Work> forwards, inputs, backwards;
    for (const size_t stage : own) {
      const StageCosts& of = problem_.costs.stages[stage];
      const double whole_s = extra_[stage] >= 0 ? backward_s_[stage] : input_s_[stage];
      forwards.push_back(
          {std::min(forward_head_[stage], backward_from_s), all(of.forward_s, of.first_forward_s)});
      inputs.push_back({std::min(input_tail_[stage], forward_tail_s),
                        all(input_s_[stage], of.first_backward_s)});
      backwards.push_back(
          {std::min(passed_on_[stage], forward_tail_s), all(whole_s, of.first_backward_s)});
      backwards_s += all(backward_s_[stage], of.first_backward_s);
    }
    const double end_s = std::max(0.0, done_s(std::move(backwards)) - backwards_s);
    return done_s(std::move(forwards)) +
           std::max(done_s(std::move(inputs)), backwards_s + extra * end_s);
  }

  const AdaptiveProblem& problem_;
  const StageLinks& links_;
  const size_t stages_;
  Seconds input_s_, backward_s_;  // of B or I, and of B or I with W: the faster form
  Seconds extra_;                 // by which a W makes I with it longer than B, by what it takes
  Seconds forward_once_s_, input_once_s_;
  Seconds forward_head_, input_head_;
  /// After an F; after B or I; of the latter what it sets off on other stages.
  Seconds forward_tail_, input_tail_, passed_on_;
};

}  // namespace

double min_makespan_s(const AdaptiveProblem& problem, const StageLinks& links) {
  return OrderBound(problem, links).run();
}

}  // namespace penstock
