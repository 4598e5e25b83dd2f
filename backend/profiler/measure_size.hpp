// All that is measured at one microbatch size.
#pragma once

#include <functional>
#include <optional>

#include "backend/communication/communicator.hpp"
#include "backend/profiler/sizes.hpp"
#include "backend/profiler/subject.hpp"

namespace penstock::profiler {

struct SizeResult {
  MicrobatchCosts costs;    // mean over ranks
  ScaleFactors unit_scale;  // of this rank: what the units were scaled by
  double pass_s = 0;        // F and B of the whole model, mean over ranks
  int64_t peak_bytes = 0;   // of tensors, above what the model itself takes
  Repetitions repetitions;
};

/// Seconds of F and B of one microbatch, once; the allocator and the gradients are warm after it.
double warm_up(Subject& subject, int64_t microbatch);

/// Measures in rounds: the whole, the units and the groups take turns, so that a slow drift of the
/// machine meets all of them. Ranks begin every round together. `progress` is told the share done.
/// Nothing where a rank has no memory for it.
std::optional<SizeResult> measure_size(Subject& subject, int64_t microbatch,
                                       const Repetitions& repetitions, double accumulate_s_per_byte,
                                       Communicator& communicator,
                                       const std::function<void(double)>& progress);

}  // namespace penstock::profiler
