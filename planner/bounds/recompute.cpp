#include "planner/bounds/recompute.hpp"

#include <algorithm>
#include <numeric>

namespace penstock {

RecomputeLevels::RecomputeLevels(const std::vector<int>& rank_of_stage, std::vector<int> units)
    : units_(std::move(units)),
      units_of_rank_(static_cast<size_t>(*std::ranges::max_element(rank_of_stage)) + 1, 0) {
  for (size_t stage = 0; stage < units_.size(); ++stage) {
    units_of_rank_[static_cast<size_t>(rank_of_stage[stage])] += units_[stage];
  }
}

void RecomputeLevels::note(const std::vector<int>& levels, Plan& plan) const {
  std::vector<int> left = levels;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const int rank = plan.stages[stage].rank;
    const auto r = static_cast<size_t>(rank);
    const int units = std::min(left[r], units_[stage]);
    const bool at_once = levels[r] == whole(rank) || (units == 1 && units_[stage] == 1);
    plan.stages[stage].recompute = at_once ? Recompute{.whole = true} : Recompute{.units = units};
    left[r] -= units;
  }
}

std::vector<int> min_levels(
    const RecomputeLevels& levels, const MemoryLimit& limit,
    const std::function<std::vector<int64_t>(const std::vector<int>&)>& peaks) {
  const auto ranks = static_cast<size_t>(levels.ranks());
  std::vector<int> low(ranks, 0), high(ranks, 0);  // the first does not fit, unless they are equal
  const auto fits = [&](size_t rank, int64_t bytes) {
    return bytes <= limit.of(static_cast<int>(rank));
  };
  const std::vector<int64_t> plain = peaks(high);
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (!fits(rank, plain[rank])) high[rank] = levels.all_units(static_cast<int>(rank));
  }
  if (high == low) return high;
  const std::vector<int64_t> units = peaks(high);
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (!fits(rank, units[rank])) low[rank] = high[rank] = levels.whole(static_cast<int>(rank));
  }
  const auto apart = [&](size_t rank) { return high[rank] - low[rank] > 1; };
  while (true) {
    std::vector<int> middle = high;
    bool any = false;
    for (size_t rank = 0; rank < ranks; ++rank) {
      if (apart(rank)) middle[rank] = std::midpoint(low[rank], high[rank]);
      any |= apart(rank);
    }
    if (!any) return high;
    const std::vector<int64_t> found = peaks(middle);
    for (size_t rank = 0; rank < ranks; ++rank) {
      if (apart(rank)) (fits(rank, found[rank]) ? high : low)[rank] = middle[rank];
    }
  }
}

std::vector<int> lowest_levels(
    const RecomputeLevels& levels,
    const std::function<std::vector<int64_t>(const std::vector<int>&)>& peaks) {
  const auto ranks = static_cast<size_t>(levels.ranks());
  std::vector<int> best(ranks, 0);
  std::vector<int64_t> least = peaks(best);
  for (const auto level : {&RecomputeLevels::all_units, &RecomputeLevels::whole}) {
    std::vector<int> tried(ranks);
    for (size_t rank = 0; rank < ranks; ++rank)
      tried[rank] = (levels.*level)(static_cast<int>(rank));
    const std::vector<int64_t> found = peaks(tried);
    for (size_t rank = 0; rank < ranks; ++rank) {
      if (found[rank] >= least[rank]) continue;
      least[rank] = found[rank];
      best[rank] = tried[rank];
    }
  }
  return best;
}

}  // namespace penstock
