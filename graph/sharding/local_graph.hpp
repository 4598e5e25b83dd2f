// The graph that each rank of a tensor group runs.
#pragma once

#include <vector>

#include "graph/graph.hpp"
#include "graph/sharding/complete.hpp"

namespace penstock::sharding {

/// A graph like any other, with local shapes and sizes, and conversions among its operators
/// (collectives.hpp). All ranks run the same one, on the same inputs: each has them whole.
struct LocalGraph {
  /// Operators and values keep their names, random operators what they draw; tensors keep names and
  /// order, and those that are split have the sizes of a part and no file: a part is read from the
  /// whole model's. Only the batch that it was completed for is possible.
  Graph graph;
  std::vector<Layout> tensors;  // how each of Graph::tensors is held, as Completion has it
};

LocalGraph local_graph(const Graph& whole, const Completion& completion);

}  // namespace penstock::sharding
