// A layer graph as the planners of PipeDream and DAPPLE look at it.
#pragma once

#include <vector>

#include "bench/planner/importers/layer_graph.hpp"
#include "planner/model/downsets.hpp"

namespace penstock::bench {

/// Without the layers that neither planner places: sources described as `Input…`, and then sinks
/// described as `__getitem__…`, which nobody uses.
LayerGraph without_ends(const LayerGraph& graph);

/// The sums over a set of layers, and what it hands on.
struct LayerSums {
  double compute_s = 0;  // forward and backward
  double parameter_bytes = 0;
  double output_bytes = 0;  // activations that layers outside read, each once
};

LayerSums sums(const LayerGraph& graph, const std::vector<bool>& set);

/// The sums of every downset.
std::vector<LayerSums> sums(const LayerGraph& graph, const Downsets& downsets);

}  // namespace penstock::bench
