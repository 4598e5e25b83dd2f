// The optimizer's step of many tensors in few launches: on a GPU one for each would take longer to
// launch than to run.
#pragma once

#include <vector>

#include "backend/executor/optimizer.hpp"

namespace penstock {

/// A tensor that is stepped: its count of steps is that of this one.
struct Stepped {
  at::Tensor parameter, gradient;
  ParameterSettings settings;
  Optimizer::State* state;
};

/// PyTorch's fused SGD and AdamW. They round in another order than the single-tensor form.
void fused_step(const OptimizerSpec& spec, const std::vector<Stepped>& tensors);

}  // namespace penstock
