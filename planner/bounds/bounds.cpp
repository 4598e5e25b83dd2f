#include "planner/bounds/bounds.hpp"

#include <algorithm>

#include "planner/bounds/chain_bound.hpp"

namespace penstock {

double split_lower_bound_s(const ChainCosts& costs, const std::vector<int>& begins,
                           int microbatches) {
  // (2) is (1) of the last rank, whose head and tail hold every other stage and every transfer.
  return ChainBound(costs, static_cast<int>(begins.size()), microbatches).split(begins);
}

double chain_lower_bound_s(const ChainCosts& costs, int ranks, int microbatches) {
  double least = ChainBound(costs, 1, microbatches).chain();
  for (int used = 2; used <= std::min(ranks, costs.units()); ++used)
    least = std::min(least, ChainBound(costs, used, microbatches).chain());
  return least;
}

}  // namespace penstock
