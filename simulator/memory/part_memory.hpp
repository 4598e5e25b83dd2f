// The memory of one part of a stage for one microbatch (stage_memory.hpp).
#pragma once

#include <set>

#include "pipeline/profile/profile.hpp"
#include "simulator/memory/stage_parts.hpp"

namespace penstock {

/// A part alone, counted from where its actions start.
struct PartMemory {
  MemoryChange forward;      // with what the backward needs; its net is what is made here and kept
  int64_t alone_peak = 0;    // of a forward that keeps nothing; known of recomputed parts
  std::set<ValueId> kept;    // values made here of which it keeps all memory
  std::set<ValueId> needed;  // values that came in and that its backward needs
  MemoryChange backward, backward_input, backward_weight;
};

/// `elsewhere`: values that an earlier part, or another stage of the rank, holds longer.
PartMemory part_memory(const StageParts& stage, size_t part, const MicrobatchCosts& measured,
                       const std::set<ValueId>& elsewhere);

}  // namespace penstock
