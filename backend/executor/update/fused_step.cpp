#include "backend/executor/update/fused_step.hpp"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>

#include <map>
#include <tuple>

namespace penstock {

namespace {

/// Tensors of one call: of one type, with the same number of steps and the same settings.
struct FusedBatch {
  std::vector<at::Tensor> parameters, gradients, first_states, second_states;
};
using Key = std::tuple<at::ScalarType, int64_t, double, double>;  // type, steps, rate, decay

at::Tensor& state_of(const TensorStep& tensor, const char* name) {
  at::Tensor& state = tensor.state->tensors[name];
  if (!state.defined()) state = at::zeros_like(tensor.parameter);
  return state;
}

void add(const OptimizerSpec& spec, const TensorStep& tensor, FusedBatch& batch) {
  batch.parameters.push_back(tensor.parameter);
  batch.gradients.push_back(tensor.gradient);
  if (spec.kind == OptimizerSpec::Kind::adamw) {
    batch.first_states.push_back(state_of(tensor, "exp_avg"));
    batch.second_states.push_back(state_of(tensor, "exp_avg_sq"));
  } else if (spec.momentum != 0) {
    batch.first_states.push_back(state_of(tensor, "momentum_buffer"));
  }
}

void step(const OptimizerSpec& spec, const Key& key, const FusedBatch& batch) {
  const auto& [type, steps, rate, decay] = key;
  if (spec.kind == OptimizerSpec::Kind::sgd) {
    return at::_fused_sgd_(batch.parameters, batch.gradients, batch.first_states, decay,
                           spec.momentum, rate, /*dampening=*/0, /*nesterov=*/false,
                           /*maximize=*/false, /*is_first_step=*/spec.momentum != 0 && steps == 1);
  }
  const at::Tensor count =
      at::full({}, steps, batch.parameters.front().options().dtype(at::kFloat));
  const std::vector<at::Tensor> counts(batch.parameters.size(), count);
  at::_fused_adamw_(batch.parameters, batch.gradients, batch.first_states, batch.second_states, {},
                    counts, rate, spec.beta1, spec.beta2, decay, spec.epsilon, /*amsgrad=*/false,
                    /*maximize=*/false);
}

}  // namespace

void fused_step(const OptimizerSpec& spec, const std::vector<TensorStep>& tensors) {
  std::map<Key, FusedBatch> batches;
  for (const TensorStep& tensor : tensors) {
    const Key key{tensor.parameter.scalar_type(), tensor.state->steps,
                  tensor.settings.learning_rate, tensor.settings.weight_decay};
    add(spec, tensor, batches[key]);
  }
  for (const auto& [key, batch] : batches) step(spec, key, batch);
}

}  // namespace penstock
