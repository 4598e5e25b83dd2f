// The measurements at one microbatch size.
#pragma once

#include <functional>
#include <optional>

#include "backend/communication/communicator.hpp"
#include "backend/profiler/sizes.hpp"
#include "backend/profiler/subject.hpp"

namespace penstock::profiler {

struct SizeResult {
  MicrobatchCosts costs;    // mean over ranks
  ScaleFactors unit_scale;  // of this rank
  double pass_s = 0;        // F and B of the whole model, mean over ranks
  int64_t peak_bytes = 0;   // of tensors, above the model itself
  Repetitions repetitions;
};

/// Runs one microbatch, which warms up the allocator and the gradients. Returns its seconds of F
/// and B.
double warm_up(Subject& subject, int64_t microbatch);

/// Measures in rounds: the whole, the units and the groups take turns, so that a slow drift of the
/// machine affects all of them alike. Ranks begin every round together. `progress` gets the share
/// done. Returns nothing where a rank has no memory for this size.
std::optional<SizeResult> measure_size(Subject& subject, int64_t microbatch,
                                       const Repetitions& repetitions, double accumulate_s_per_byte,
                                       Communicator& communicator,
                                       const std::function<void(double)>& progress);

}  // namespace penstock::profiler
