// SGD and AdamW. On the CPU operation by operation as torch.optim's single-tensor form runs them:
// equal gradients give equal parameters, bit for bit. On a GPU in few launches (fused_step.hpp). A
// bfloat16 parameter whose gradient is float32 has a float32 master copy, which is stepped and then
// rounded to the parameter.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "backend/executor/update/optimizer_shards.hpp"
#include "backend/stage/recipe/store.hpp"
#include "pipeline/job/parameters.hpp"

namespace penstock {

struct TensorStep;

class Optimizer {
 public:
  /// `settings`: by index in Graph::tensors; a tensor without has those of `spec`. `parts`: what is
  /// stepped of tensors that other ranks step the rest of; their states are of that part, flat.
  explicit Optimizer(const OptimizerSpec& spec, std::map<int, ParameterSettings> settings = {},
                     TensorParts parts = {})
      : spec_(spec), settings_(std::move(settings)), parts_(std::move(parts)) {}

  /// Steps each tensor of `indices` that has a gradient; the others stay, as in PyTorch.
  /// `rate_factor` multiplies every learning rate.
  void step(TensorStore& store, const std::set<int>& indices, double rate_factor = 1);
  /// The same with this rate in place of `spec`'s, to which others keep their ratio.
  void step_at(TensorStore& store, const std::set<int>& indices, double learning_rate);

  /// The state of one tensor: `momentum_buffer`, or `exp_avg` and `exp_avg_sq`, perhaps `master`,
  /// and the number of steps done.
  struct State {
    int64_t steps = 0;
    std::map<std::string, at::Tensor> tensors;
  };
  std::map<int, State>& states() { return states_; }
  const TensorParts& parts() const { return parts_; }

 private:
  using Rate = std::function<double(double)>;  // from the one in force
  void step(TensorStore& store, const std::set<int>& indices, const Rate& rate);
  ParameterSettings settings(int index, const Rate& rate) const;
  void single_step(const TensorStep& tensor) const;
  void sgd(const at::Tensor& parameter, at::Tensor gradient, const ParameterSettings& own,
           State& state) const;
  void adamw(const at::Tensor& parameter, const at::Tensor& gradient, const ParameterSettings& own,
             State& state) const;

  OptimizerSpec spec_;
  std::map<int, ParameterSettings> settings_;
  TensorParts parts_;
  std::map<int, State> states_;  // by index in Graph::tensors
};

}  // namespace penstock
