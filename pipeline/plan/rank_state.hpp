// Bytes that each rank of a plan holds whatever it does, from the model alone.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/cuts/slice.hpp"
#include "pipeline/plan/plan.hpp"

namespace penstock {

struct RankStateBytes {
  int64_t held_bytes = 0;      // parameters, gradients, optimizer state, buffers
  int64_t snapshot_bytes = 0;  // of a copy of what training changes
};

/// By rank of a replica.
std::vector<RankStateBytes> state_bytes_of_ranks(const Plan& plan, const Graph& model,
                                                 const Slicing& slicing);

}  // namespace penstock
