// A chosen completion as pins of a plan, from which alone every rank completes it again.
#pragma once

#include <cstdint>

#include "graph/sharding/complete.hpp"

namespace penstock::sharding {

struct ChosenPins {
  Pins pins;        // a plan can have them all
  bool same;        // false: with these, completing gives another one
  Completion from;  // the one that completing gives
};

/// A few pins with which `complete` at its own costs gives `chosen`: of parameters those that are
/// split, of values those that it would hold otherwise. Patterns are as short as they can be, and
/// name all blocks that are alike: `*.c_attn.weight`, `transformer.h.*`; a name stands where a
/// pattern would also mean others. None can be left out. A plan cannot say R or P, and of a value
/// that is held in several layouts only the first.
ChosenPins pins_of(const Graph& graph, const Completion& chosen, int64_t microbatches = 1);

}  // namespace penstock::sharding
