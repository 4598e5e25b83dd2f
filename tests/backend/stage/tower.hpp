// A stack of equal layers, whose memory is easily counted.
#pragma once

#include <cstdint>

#include "graph/graph.hpp"
#include "tests/backend/stage/driver.hpp"
#include "tests/backend/stage/graph_builder.hpp"

namespace penstock::test {

constexpr int64_t kWidth = 64, kRows = 32;

/// linear, tanh, linear, tanh, … on [32, 64] in single precision; the loss is the mean.
Graph tower(GraphBuilder& b, int layers);

Batch tower_batch(const Graph& graph, int microbatches);

}  // namespace penstock::test
