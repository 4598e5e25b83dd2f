// The bytes of a microbatch that units of a model free by recompute, at most, and keep for W, at
// least.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/cuts/slice.hpp"
#include "pipeline/profile/profile.hpp"
#include "simulator/memory/value_lives.hpp"

namespace penstock {

/// In bytes. A unit that runs its forward again frees what it makes and its own backward needs, but
/// not what it is given.
struct UnitBytes {
  int64_t alone = 0;       // that it frees at most where it recomputes by itself
  int64_t at_once = 0;     // where its stage is recomputed at once
  int64_t in_part = 0;     // any part of it, alone or at once
  int64_t for_weight = 0;  // that it keeps between I and W at least; perhaps below 0
};

/// Each holds for its unit in any stage. `units`: each as a stage.
std::vector<UnitBytes> unit_bytes(const ValueLives& lives, const MicrobatchCosts& measured,
                                  const Slicing& units);

}  // namespace penstock
