// The bytes that a microbatch holds, from the tensors that each operator saves for its backward:
// pipeline/profile/profile.hpp defines what is counted where.
#pragma once

#include <vector>

#include "estimate/model.hpp"
#include "graph/cuts/cuts.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock {

/// One entry per operator. After F: values that some backward keeps, each where it is produced, and
/// what the operator keeps beside values. After I: what operators with parameters keep, and the
/// gradients of their results, each at the first of those operators that needs it (the last to run
/// its W). Transients: the peak that a unit's F or B needs while the operator runs, above the
/// larger of what it holds before and after; gradients that are passed on unchanged count once.
std::vector<HeldBytes> held_bytes(const EstimateModel& model, const std::vector<Unit>& units,
                                  Loss loss, int64_t batch, bool cuda, bool float32_loss = false);

/// The bytes of a unit: sums over its operators, the largest of their transients, and of the values
/// that it produces those that later units use.
HeldBytes held_bytes_of(const EstimateModel& model, const Unit& unit,
                        const std::vector<HeldBytes>& operators, int64_t batch);

}  // namespace penstock
