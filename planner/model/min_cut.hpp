// A minimum cut of a directed graph with capacities (Boost.Graph's push-relabel maximum flow).
#pragma once

#include <cstdint>
#include <vector>

namespace penstock {

struct CapacityEdge {
  static constexpr int64_t infinite = INT64_MAX / 4;
  int from = 0, to = 0;
  int64_t capacity = 0;
};

/// Which of the nodes 0 … nodes - 1 are on the side of `source`: of all cuts with the least
/// capacity the one with fewest of them. Finite capacities add up to less than `infinite`.
std::vector<char> min_cut(int nodes, const std::vector<CapacityEdge>& edges, int source, int sink);

}  // namespace penstock
