// The bytes that a backward takes at least beyond what its stage keeps, by the unit that the stage
// ends with: where a microbatch turns round.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/cuts/slice.hpp"
#include "pipeline/profile/profile.hpp"
#include "simulator/memory/value_lives.hpp"

namespace penstock {

/// At the start of a backward in one part, of a stage that ends with the whole unit.
struct TurnBytes {
  int64_t bytes = 0;  // what its operators take one after the other, and the gradients it is given
  int64_t again = 0;  // where it recomputes, alone or with its stage: what it has made again then
};

/// By unit. `units`: each as a stage.
std::vector<TurnBytes> turn_bytes(const ValueLives& lives, const MicrobatchCosts& measured,
                                  const Slicing& units);

}  // namespace penstock
