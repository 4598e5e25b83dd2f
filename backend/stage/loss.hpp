// The loss of one microbatch: a mean, not yet scaled by its share of the step.
#pragma once

#include <ATen/ATen.h>

#include "pipeline/job/job.hpp"

namespace penstock {

/// `output` (the model's first output itself) needs none.
bool needs_target(Loss loss);

/// A number, as a tensor without dimensions.
///   cross_entropy: output [.., C], target [..] of int64; over the last dimension, mean over all
///     the targets that are not -100 (0 if there is none);
///   mse: output and target of one shape; mean over all elements;
///   output: mean over all elements of the output.
/// Throws InputError for shapes or types that do not fit, naming both.
at::Tensor mean_loss(Loss loss, const at::Tensor& output, const at::Tensor& target);

/// How many targets the mean counts: cross-entropy leaves out those that are -100. For the exact
/// mean over a step, a microbatch's `loss_scale` is its count over the count of the global batch.
int64_t counted_targets(Loss loss, const at::Tensor& target);

}  // namespace penstock
