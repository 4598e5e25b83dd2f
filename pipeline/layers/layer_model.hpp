// A table of layers as everything else takes it: a graph with an operator for each layer, and the
// profile of that graph.
#pragma once

#include "graph/graph.hpp"
#include "pipeline/layers/layer_table.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock {

/// A chain. Each layer is a module; what it holds all the time are a parameter, as large as its
/// gradient, and a buffer.
Graph layer_graph(const LayerTable& table);

/// Times and bytes as the table has them; a layer's backward takes what it hands back to the layer
/// before. Its link is free: the table knows none.
Profile layer_profile(const LayerTable& table);

}  // namespace penstock
