// Bounds of chains with one stage per rank under any schedule, as numbers.
#pragma once

#include <algorithm>
#include <vector>

#include "planner/bounds/chain_bound.hpp"

namespace penstock {

/// The bound of one split: the largest over ranks of head_r + m (F + B) + tail_r. That of the last
/// rank is at least one microbatch through all stages with its transfers. `begins[r]` is the first
/// unit of rank r.
inline double split_lower_bound_s(const ChainCosts& costs, const std::vector<int>& begins,
                                  int microbatches) {
  return ChainBound(costs, static_cast<int>(begins.size()), microbatches).split(begins);
}

/// The least of these over all splits into at most `ranks` stages.
inline double chain_lower_bound_s(const ChainCosts& costs, int ranks, int microbatches) {
  double least = ChainBound(costs, 1, microbatches).chain();
  for (int used = 2; used <= std::min(ranks, costs.units()); ++used)
    least = std::min(least, ChainBound(costs, used, microbatches).chain());
  return least;
}

}  // namespace penstock
