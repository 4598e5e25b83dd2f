// SGD and AdamW, operation by operation as torch.optim's single-tensor form runs them on the CPU:
// equal gradients give equal parameters, bit for bit.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <set>
#include <string>

#include "backend/store.hpp"
#include "pipeline/job.hpp"

namespace penstock {

class Optimizer {
 public:
  explicit Optimizer(const OptimizerSpec& spec) : spec_(spec) {}

  /// One step of each tensor of `indices` that has a gradient; the others stay, as in PyTorch.
  void step(TensorStore& store, const std::set<int>& indices);

  /// What it keeps of one tensor: `momentum_buffer`, or `exp_avg` and `exp_avg_sq`, and the number
  /// of steps done.
  struct State {
    int64_t steps = 0;
    std::map<std::string, at::Tensor> tensors;
  };
  std::map<int, State>& states() { return states_; }

 private:
  void sgd(const at::Tensor& parameter, at::Tensor gradient, State& state) const;
  void adamw(const at::Tensor& parameter, const at::Tensor& gradient, State& state) const;

  OptimizerSpec spec_;
  std::map<int, State> states_;  // by index in Graph::tensors
};

}  // namespace penstock
