// Pins that one can read, for completions that prices of memory led to.
#pragma once

#include <cstdint>

#include "graph/sharding/complete.hpp"
#include "graph/sharding/pins.hpp"

namespace penstock::sharding {

/// Pins without prices that complete to the same as `asked` does: of parameters those that it
/// splits, of values those that are held otherwise else. Patterns are as short as they can be, and
/// name all blocks that are alike (`*.c_attn.weight`, `transformer.h.*`); a name stands where a
/// pattern would also mean others. None can be left out. `asked` itself where pins are not enough:
/// they cannot say R or P, and of a value that is held in several layouts only one. Throws as
/// complete does.
Pins pins_of(const Graph& graph, const Pins& asked, int64_t batch, int parts,
             int64_t microbatches = 1, FirstOutput first = FirstOutput::any);

}  // namespace penstock::sharding
