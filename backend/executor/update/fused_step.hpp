// The optimizer's step of many tensors in few launches: on a GPU a step of one tensor at a time is
// launch-bound.
#pragma once

#include <vector>

#include "backend/executor/update/optimizer.hpp"

namespace penstock {

/// A tensor to step; `state` counts this step already.
struct TensorStep {
  at::Tensor parameter, gradient;
  ParameterSettings settings;
  Optimizer::State* state;
};

/// PyTorch's fused SGD and AdamW. They round in another order than the single-tensor form.
void fused_step(const OptimizerSpec& spec, const std::vector<TensorStep>& tensors);

}  // namespace penstock
