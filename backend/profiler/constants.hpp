// Costs that do not depend on the microbatch size: seconds per byte and per action.
#pragma once

#include "backend/profiler/subject.hpp"

namespace penstock::profiler {

/// Each is of a few repetitions with warm memory, in seconds.

/// Adding a gradient to a stored one, less storing it, per parameter byte.
double accumulate_s_per_byte(Subject& subject);
/// A step of the job's optimizer takes so long for each parameter and for each of its bytes. On a
/// device that steps all of them at once per_tensor_s is 0.
struct StepRates {
  double per_tensor_s = 0, per_byte_s = 0;
};
/// Gradients must be there.
StepRates step_rates(Subject& subject);
/// Clearing the gradients, per parameter byte.
double zero_s_per_byte(Subject& subject);
/// F or B of a stage that computes next to nothing: the overhead of every action, of the host where
/// that runs ahead.
double action_overhead_s(ComputeDevice& device);
/// F of the loss alone, at the shapes of the model's first output.
Measured loss_forward(const Subject& subject, int64_t microbatch, const Batch& batch);

}  // namespace penstock::profiler
