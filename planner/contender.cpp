#include "planner/contender.hpp"

#include <algorithm>
#include <utility>

#include "simulator/noise/step_noise.hpp"

namespace penstock {

namespace {

/// Layouts whose best plans are judged, and the effort of that (SplitOutcome) for all replicas.
constexpr size_t max_finalists = 24;
constexpr int64_t max_judged_effort = 100'000'000;

}  // namespace

Contender contender(const PlanningInputs& inputs, const LayoutSearch& search, FoundSplit split,
                    SearchResult::Space found) {
  const PipelineLayout layout = search.layouts()[split.space];
  const double weight = search.weight(layout);
  const double step_s = split.outcome.step_s;
  Contender one{&search, std::move(split), std::move(found), weight * step_s, {}, {}};
  if (!knows_noise(inputs.profile)) return one;
  const auto space = search.open(layout);
  LayoutSpace::Result run = space->plan(one.split, {false, false});
  one.verdict = judged(inputs.profile, inputs.cluster, run.plan, run.evaluated.slicing,
                       run.evaluated.costs, space->network());
  if (one.verdict) one.weighted_s = weight * one.verdict->expected_s;
  one.slicing = std::move(run.evaluated.slicing);
  return one;
}

Contender contender(const PlanningInputs& inputs, SimplestSearch::Found found) {
  return contender(inputs, *found.search, std::move(found.split), std::move(found.space));
}

std::vector<Contender> finalists(const PlanningInputs& inputs, const PlanRequest& request,
                                 const LayoutSearch& search, const SearchResult& result) {
  struct Candidate {
    size_t space;
    double weighted_s;
  };
  std::vector<Candidate> order;
  const auto add = [&](size_t space, const FoundSplit& best) {
    order.push_back({space, search.weight(search.layouts()[space]) * best.outcome.step_s});
  };
  add(result.best->space, *result.best);
  if (request.objective != PlanObjective::memory && knows_noise(inputs.profile)) {
    for (const auto& [space, seen] : result.spaces)
      if (seen.best && space != result.best->space) add(space, *seen.best);
    std::ranges::stable_sort(order.begin() + 1, order.end(), {}, &Candidate::weighted_s);
  }
  std::vector<Contender> finalists;
  double least_s = 0;
  int64_t effort = 0;
  for (const auto& [space, weighted_s] : order) {
    if (finalists.size() == max_finalists || effort > max_judged_effort) break;
    if (!finalists.empty() && weighted_s >= least_s) break;
    const SearchResult::Space& found = result.spaces.at(space);
    const Contender& next = finalists.emplace_back(contender(inputs, search, *found.best, found));
    least_s = finalists.size() == 1 ? next.weighted_s : std::min(least_s, next.weighted_s);
    effort += 2 * judged_steps * found.best->outcome.effort * next.layout().data_parallel;
  }
  return finalists;
}

Lead lead(const Contender& fastest, const Contender& other, double tolerance) {
  const double gain = 1 - fastest.weighted_s / other.weighted_s;
  if (!fastest.verdict || !other.verdict) return {gain, tolerance};
  return {gain, std::max(tolerance, standard_error(*fastest.verdict, *other.verdict))};
}

}  // namespace penstock
