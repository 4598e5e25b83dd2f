// The bytes of a microbatch that units of a model free by recompute, at most.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/cuts/slice.hpp"
#include "simulator/memory/value_lives.hpp"

namespace penstock {

/// A unit that runs its forward again frees what it makes and its own backward needs, but not what
/// it is given. Where a stage is recomputed at once, its units free all that they make. `in_part`:
/// no part of it frees more, alone or at once.
struct UnitBytes {
  int64_t alone = 0, at_once = 0, in_part = 0;
};

/// Of each unit, in any stage. `units`: each as a stage.
std::vector<UnitBytes> unit_bytes(const ValueLives& lives, const Slicing& units);

}  // namespace penstock
