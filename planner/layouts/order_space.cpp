#include "planner/layouts/order_space.hpp"

#include <algorithm>
#include <utility>

namespace penstock {

namespace {

/// Pairs of actions of a rank that a bound looks at for one effort, beside one for each action.
constexpr int64_t pairs_per_effort = 64;

int64_t bound_effort(const Placement& placement) {
  const auto stages = static_cast<int64_t>(placement.rank_of_stage.size());
  const int64_t actions = 2 * stages * placement.microbatches;
  return actions + actions * actions / placement.ranks / pairs_per_effort;
}

}  // namespace

OrderSpace::OrderSpace(std::unique_ptr<const SplitSpace> prefixes, ChainCosts costs,
                       Placement placement, RankSpeeds speeds)
    : prefixes_(std::move(prefixes)),
      costs_(std::move(costs)),
      placement_(std::move(placement)),
      speeds_(std::move(speeds)),
      sums_(costs_, placement_.microbatches, WorkSums::prefixes(costs_.units())),
      effort_(bound_effort(placement_)) {}

double OrderSpace::split_s(const std::vector<int>& begins) const {
  const auto end = [&](size_t stage) {
    return stage + 1 < begins.size() ? begins[stage + 1] : units();
  };
  OrderProblem problem{placement_.ranks, placement_.microbatches, placement_.rank_of_stage, {}, {}};
  problem.links.forward.resize(begins.size());
  problem.links.backward.resize(begins.size());
  std::vector<double> optimizer_s(static_cast<size_t>(placement_.ranks), 0.0);
  for (size_t stage = 0; stage < begins.size(); ++stage) {
    const int rank = placement_.rank_of_stage[stage];
    problem.stages.push_back(sums_.times(begins[stage], end(stage), speed(stage)));
    optimizer_s[static_cast<size_t>(rank)] +=
        sums_.optimizer(begins[stage], end(stage)) / speed(stage);
    if (stage == 0) continue;
    const auto cut = static_cast<size_t>(begins[stage]) - 1;
    const bool apart = placement_.rank_of_stage[stage - 1] != rank;
    const int number = static_cast<int>(stage);
    problem.links.forward[stage].push_back({number - 1, apart ? costs_.cut_forward_s[cut] : 0});
    problem.links.backward[stage - 1].push_back({number, apart ? costs_.cut_backward_s[cut] : 0});
  }
  return std::max(prefixes_->split_s(begins),
                  min_makespan_s(problem) + *std::ranges::max_element(optimizer_s));
}

}  // namespace penstock
