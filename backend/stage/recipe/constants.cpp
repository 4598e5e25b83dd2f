#include "backend/stage/recipe/constants.hpp"

#include <ATen/core/grad_mode.h>

namespace penstock {

namespace {

/// Expanded tensors have many elements in one place, which is written once.
void overwrite(at::Tensor old, at::Tensor now) {
  for (int64_t dim = 0; dim < old.dim(); ++dim) {
    if (old.stride(dim) != 0 || old.size(dim) < 2) continue;
    old = old.narrow(dim, 0, 1);
    now = now.narrow(dim, 0, 1);
  }
  old.copy_(now);
}

}  // namespace

Constants::Constants(const Recipe& recipe) : recipe_(recipe) {
  const auto want = [&](ValueId v) {
    const bool computed = recipe.value(v).kind == Value::Kind::intermediate;
    if (computed && recipe.role(v) == ValueRole::constant) wanted_.insert(v);
  };
  for (const StageOperator& op : recipe.roles.operators) {
    if (op.role == ValueRole::constant) continue;
    for (const ValueId v : op.prepared.op().reads()) want(v);
  }
  for (const auto& [tensor, value] : recipe.roles.updates) want(value);
  for (const auto& [value, gradient] : recipe.sent) want(value);
  for (const Output& output : recipe.graph.outputs) {
    if (const auto* ref = std::get_if<TensorRef>(&output.value)) want(ref->value);
  }
}

const std::map<ValueId, at::Tensor>& Constants::at(int64_t batch) {
  const auto found = by_batch_.find(batch);
  return found != by_batch_.end() ? found->second : by_batch_[batch] = compute(batch);
}

void Constants::refresh() {
  const at::NoGradGuard no_grad;
  for (auto& [batch, constants] : by_batch_)
    for (const auto& [value, tensor] : compute(batch)) overwrite(constants.at(value), tensor);
}

std::map<ValueId, at::Tensor> Constants::compute(int64_t batch) const {
  const at::NoGradGuard no_grad;
  ValueTable values(recipe_.graph.values.size());
  for (const ValueId v : recipe_.stored) {
    values[static_cast<size_t>(v)] = recipe_.store.tensor(recipe_.value(v).tensor);
  }
  for (const StageOperator& op : recipe_.roles.operators) {
    if (op.role == ValueRole::constant) op.prepared.run(values, batch);
  }
  std::map<ValueId, at::Tensor> result;
  for (const ValueId v : wanted_) {
    at::Tensor& value = values[static_cast<size_t>(v)];
    if (value.defined()) result[v] = value;
  }
  return result;
}

}  // namespace penstock
