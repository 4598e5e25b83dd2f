// The completions that are worth knowing, by what a byte of memory is worth.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/sharding/complete.hpp"
#include "graph/sharding/pins.hpp"

namespace penstock::sharding {

/// Pins that complete to what needs least time, and, where that is another, to what holds least
/// memory, at the highest price for any batch up to `max_batch` (as pins_of says it), where the
/// backward gathers again. Both are weighed for microbatches of `batch` samples. Where pins or
/// prices are asked for, these alone. Throws as complete does.
std::vector<Pins> fast_and_small(const Graph& graph, const Pins& asked, int64_t batch,
                                 int64_t max_batch, int parts, FirstOutput first);

}  // namespace penstock::sharding
