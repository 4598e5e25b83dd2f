#include "simulator/adaptive/work_left.hpp"

#include <algorithm>

namespace penstock {

/// From the end on: the I of the first stage is the last.
WorkLeft::WorkLeft(const AdaptiveProblem& problem)
    : microbatches_(problem.microbatches), from_forward_(problem.rank_of_stage.size()) {
  Left left{0, std::vector<double>(static_cast<size_t>(problem.ranks), 0.0)};
  const auto add = [&](size_t stage, double way_s, double rank_s) {
    left.way_s += way_s;
    left.ranks_s[static_cast<size_t>(problem.rank_of_stage[stage])] += rank_s;
  };
  for (size_t stage = 0; stage < from_forward_.size(); ++stage) {
    const StageCosts& of = problem.costs.stages[stage];
    add(stage, std::min(of.backward_s, of.backward_input_s),
        std::min(of.backward_s, of.backward_input_s + of.backward_weight_s));
    from_input_.push_back(left);
  }
  for (size_t stage = from_forward_.size(); stage-- > 0;) {
    const double forward_s = problem.costs.stages[stage].forward_s;
    add(stage, forward_s, forward_s);
    from_forward_[stage] = left;
  }
}

double WorkLeft::seconds(const Action& action) const {
  const auto& from = action.kind == Kind::forward ? from_forward_ : from_input_;
  const Left& left = from[static_cast<size_t>(action.stage)];
  const double rank_s = *std::ranges::max_element(left.ranks_s);
  return std::max(left.way_s, (microbatches_ - action.microbatch) * rank_s);
}

}  // namespace penstock
