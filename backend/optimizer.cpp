#include "backend/optimizer.hpp"

#include <cmath>

namespace penstock {

void Optimizer::step(TensorStore& store, const std::set<int>& indices) {
  const at::NoGradGuard no_grad;
  for (const int index : indices) {
    const at::Tensor& gradient = store.gradient(index);
    if (!gradient.defined()) continue;
    State& state = states_[index];
    ++state.steps;
    if (spec_.kind == OptimizerSpec::Kind::sgd) {
      sgd(store.tensor(index), gradient, state);
    } else {
      adamw(store.tensor(index), gradient, state);
    }
  }
}

void Optimizer::sgd(const at::Tensor& parameter, at::Tensor gradient, State& state) const {
  if (spec_.weight_decay != 0) gradient = gradient.add(parameter, spec_.weight_decay);
  if (spec_.momentum != 0) {
    at::Tensor& buffer = state.tensors["momentum_buffer"];
    if (buffer.defined()) {
      buffer.mul_(spec_.momentum).add_(gradient, 1);
    } else {
      buffer = gradient.clone();
    }
    gradient = buffer;
  }
  parameter.add_(gradient, -spec_.learning_rate);
}

void Optimizer::adamw(const at::Tensor& parameter, const at::Tensor& gradient, State& state) const {
  at::Tensor& average = state.tensors["exp_avg"];
  at::Tensor& square = state.tensors["exp_avg_sq"];
  if (!average.defined()) average = at::zeros_like(parameter);
  if (!square.defined()) square = at::zeros_like(parameter);
  if (spec_.weight_decay != 0) parameter.mul_(1 - spec_.learning_rate * spec_.weight_decay);
  average.lerp_(gradient, 1 - spec_.beta1);
  square.mul_(spec_.beta2).addcmul_(gradient, gradient, 1 - spec_.beta2);
  const auto step = static_cast<double>(state.steps);
  const double step_size = spec_.learning_rate / (1 - std::pow(spec_.beta1, step));
  const double root = std::pow(1 - std::pow(spec_.beta2, step), 0.5);
  const at::Tensor denominator = (square.sqrt() / root).add_(spec_.epsilon);
  parameter.addcdiv_(average, denominator, -step_size);
}

}  // namespace penstock
