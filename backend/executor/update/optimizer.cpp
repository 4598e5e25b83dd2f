#include "backend/executor/update/optimizer.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>

#include <cmath>

#include "backend/executor/update/fused_step.hpp"

namespace penstock {

namespace {

/// The tensor that is stepped: the parameter, or its master.
at::Tensor stepped_tensor(const at::Tensor& parameter, const at::Tensor& gradient,
                          Optimizer::State& state) {
  if (parameter.scalar_type() == gradient.scalar_type()) return parameter;
  at::Tensor& master = state.tensors["master"];
  if (!master.defined()) master = parameter.to(gradient.scalar_type());
  return master;
}

}  // namespace

ParameterSettings Optimizer::settings(int index, const Rate& rate) const {
  const auto found = settings_.find(index);
  ParameterSettings own{spec_.learning_rate, spec_.weight_decay};
  if (found != settings_.end()) own = found->second;
  own.learning_rate = rate(own.learning_rate);
  return own;
}

void Optimizer::step(TensorStore& store, const std::set<int>& indices, double rate_factor) {
  step(store, indices, [=](double own) { return own * rate_factor; });
}

void Optimizer::step_at(TensorStore& store, const std::set<int>& indices, double learning_rate) {
  const double usual = spec_.learning_rate;
  step(store, indices,
       [=](double own) { return own == usual ? learning_rate : own / usual * learning_rate; });
}

void Optimizer::step(TensorStore& store, const std::set<int>& indices, const Rate& rate) {
  const at::NoGradGuard no_grad;
  std::vector<TensorStep> on_gpu;
  std::vector<at::Tensor> rounded, masters;
  for (const int index : indices) {
    if (!store.gradient(index).defined()) continue;
    const at::Tensor parameter = own_part(parts_, index, store.tensor(index));
    const at::Tensor gradient = own_part(parts_, index, store.gradient(index));
    State& state = states_[index];
    ++state.steps;
    const TensorStep tensor{stepped_tensor(parameter, gradient, state), gradient,
                            settings(index, rate), &state};
    if (tensor.parameter.is_cpu()) {
      single_step(tensor);
    } else {
      on_gpu.push_back(tensor);
    }
    if (tensor.parameter.is_same(parameter)) continue;
    rounded.push_back(parameter);
    masters.push_back(tensor.parameter);
  }
  fused_step(spec_, on_gpu);
  if (!rounded.empty()) at::_foreach_copy_(rounded, masters);
}

void Optimizer::single_step(const TensorStep& tensor) const {
  if (spec_.kind == OptimizerSpec::Kind::sgd) {
    sgd(tensor.parameter, tensor.gradient, tensor.settings, *tensor.state);
  } else {
    adamw(tensor.parameter, tensor.gradient, tensor.settings, *tensor.state);
  }
}

void Optimizer::sgd(const at::Tensor& parameter, at::Tensor gradient, const ParameterSettings& own,
                    State& state) const {
  if (own.weight_decay != 0) gradient = gradient.add(parameter, own.weight_decay);
  if (spec_.momentum != 0) {
    at::Tensor& buffer = state.tensors["momentum_buffer"];
    if (buffer.defined()) {
      buffer.mul_(spec_.momentum).add_(gradient, 1);
    } else {
      buffer = gradient.clone();
    }
    gradient = buffer;
  }
  parameter.add_(gradient, -own.learning_rate);
}

void Optimizer::adamw(const at::Tensor& parameter, const at::Tensor& gradient,
                      const ParameterSettings& own, State& state) const {
  at::Tensor& average = state.tensors["exp_avg"];
  at::Tensor& square = state.tensors["exp_avg_sq"];
  if (!average.defined()) average = at::zeros_like(parameter);
  if (!square.defined()) square = at::zeros_like(parameter);
  if (own.weight_decay != 0) parameter.mul_(1 - own.learning_rate * own.weight_decay);
  average.lerp_(gradient, 1 - spec_.beta1);
  square.mul_(spec_.beta2).addcmul_(gradient, gradient, 1 - spec_.beta2);
  const auto step = static_cast<double>(state.steps);
  const double step_size = own.learning_rate / (1 - std::pow(spec_.beta1, step));
  const double root = std::pow(1 - std::pow(spec_.beta2, step), 0.5);
  const at::Tensor denominator = (square.sqrt() / root).add_(spec_.epsilon);
  parameter.addcdiv_(average, denominator, -step_size);
}

}  // namespace penstock
