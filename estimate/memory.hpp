// The bytes that a microbatch holds, from the tensors that each operator saves for its backward:
// pipeline/profile/profile.hpp defines what is counted where.
#pragma once

#include <vector>

#include "estimate/model.hpp"
#include "graph/cuts/cuts.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock {

/// One entry per operator.
struct EstimatedMemory {
  std::vector<HeldBytes> held;
  std::vector<ValueMemory> values;
};

/// I does what B does but for what operators with parameters keep, and the gradients of their
/// results, which W frees at the first of those operators that needs it (the last to run its W).
EstimatedMemory memory_of(const EstimateModel& model, Loss loss, int64_t batch, bool cuda,
                          bool float32_loss = false);

/// The bytes of a unit: those of its operators in a row, and of the values that it produces those
/// that later units use.
HeldBytes held_bytes_of(const EstimateModel& model, const Unit& unit,
                        const std::vector<HeldBytes>& operators, int64_t batch);

}  // namespace penstock
