// The cheapest way to split a small graph, by trying every signature of every operator with every
// set of conversions: what complete is to find.
#pragma once

#include <map>
#include <optional>

#include "graph/graph.hpp"
#include "graph/sharding/complete.hpp"
#include "graph/sharding/pins.hpp"

namespace penstock::sharding::testing {

/// Nothing where no signatures go with the pins. At most 16 layouts of a value are possible.
std::optional<int64_t> cheapest_cost(const Graph& graph, const Pins& pins, int64_t batch, int parts,
                                     int64_t microbatches, FirstOutput first);

/// The cost of converting a value, forward and, where it has a gradient, backward: a rank computes
/// 1,000 FLOPs while it sends a byte, and a ring sends `bytes / parts` to each other part for each
/// time that parts are gathered or terms added up.
int64_t moved(const Layout& from, const Layout& to, int64_t bytes, bool has_gradient, int parts);

}  // namespace penstock::sharding::testing
