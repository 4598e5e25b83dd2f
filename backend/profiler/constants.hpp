// What does not depend on the microbatch size: seconds per byte and per action.
#pragma once

#include "backend/profiler/subject.hpp"

namespace penstock::profiler {

/// Each is a mean of a few repetitions with warm memory, in seconds.

/// Per parameter byte: adding a gradient to a stored one, less storing it.
double accumulate_s_per_byte(Subject& subject);
/// Per parameter byte: a step of the job's optimizer. Gradients must be there.
double optimizer_s_per_byte(Subject& subject);
/// Per parameter byte: clearing the gradients.
double zero_s_per_byte(Subject& subject);
/// Per byte: handing a tensor to another stage of the same rank.
double hand_off_s_per_byte(ComputeDevice& device);
/// F or B of a stage that computes next to nothing: what every action costs beside its operators,
/// the host where it runs ahead.
double action_overhead_s(ComputeDevice& device);
/// F of the loss alone, at the shapes of the model's first output.
Measured loss_forward(const Subject& subject, int64_t microbatch, const Batch& batch);

}  // namespace penstock::profiler
