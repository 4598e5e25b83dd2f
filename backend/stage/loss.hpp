// The loss of one microbatch: a mean, not yet scaled by its share of the step.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "graph/sharding/layout.hpp"
#include "pipeline/job/job.hpp"

namespace penstock {

/// False for `output`, the model's first output itself.
bool needs_target(Loss loss);

/// The loss as a scalar tensor.
///   cross_entropy: output [.., C], target [..] of int64; over the last dimension, mean over all
///     the targets that are not -100 (0 if there is none), with label smoothing as PyTorch's;
///   mse: output and target of one shape; mean over all elements;
///   bce_with_logits: the same, targets from 0 to 1;
///   output: mean over all elements of the output, which in a job is a scalar.
/// `classes`: the split of a cross_entropy's output, where the ranks of the thread's tensor group
/// each have some of its classes.
/// Throws InputError for shapes or types that do not fit, naming both.
at::Tensor mean_loss(const LossSpec& loss, const at::Tensor& output, const at::Tensor& target,
                     const std::optional<sharding::Layout>& classes = std::nullopt);

/// The number of targets that the mean counts: cross-entropy ignores those that are -100. For the
/// exact mean over a step, a microbatch's `loss_scale` is its count over the global batch's.
int64_t counted_targets(Loss loss, const at::Tensor& target);

}  // namespace penstock
