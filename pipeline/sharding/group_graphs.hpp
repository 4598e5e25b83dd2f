// The graphs whose costs profiles have for tensor groups.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.hpp"
#include "graph/sharding/local_graph.hpp"
#include "graph/sharding/pins.hpp"
#include "pipeline/job/job.hpp"

namespace penstock {

/// The graph that the ranks of a group run on microbatches of these sizes.
struct GroupGraph {
  int parts = 2;
  sharding::Pins sharding;     // from which it is completed
  std::vector<int64_t> sizes;  // ascending
  sharding::LocalGraph local;
};

/// The graphs of groups of each of so many `parts`, in that order, completed from what is asked
/// for, or as sharding::fast_and_small says; smaller microbatches first. None of groups whose ranks
/// could not share any operator. `sizes`: ascending. Throws InputError for pins that cannot be.
std::vector<GroupGraph> group_graphs(const Graph& model, const LossSpec& loss,
                                     const sharding::Pins& asked, const std::vector<int64_t>& sizes,
                                     const std::vector<int>& parts);

}  // namespace penstock
