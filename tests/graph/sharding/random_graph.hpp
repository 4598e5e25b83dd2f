// Small random graphs of operators that have signatures, with random pins.
#pragma once

#include <random>
#include <string>

#include "graph/graph.hpp"
#include "graph/sharding/pins.hpp"

namespace penstock::sharding::testing {

struct RandomGraph {
  Graph graph;
  Pins pins;  // memory has a price in most
  int64_t batch = 1, microbatches = 1;
  Costs costs = {};          // memory has a price in most
  std::string text() const;  // what was drawn
};

/// Has sizes that divide into `parts` equal parts, some of them large: both computing and sending
/// can cost more.
RandomGraph random_graph(std::mt19937& random, int parts);

}  // namespace penstock::sharding::testing
