#include "graph/functional/functional_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/operators/facts.hpp"

namespace penstock {

FunctionalBuilder::FunctionalBuilder(Graph& graph)
    : graph_(graph), old_(std::exchange(graph.operators, {})) {
  for (const Value& value : graph.values) names_.insert(value.name);
  for (const Operator& op : old_) names_.insert(op.name);
  for (const Value& value : graph.values) {
    const bool stored = value.kind == Value::Kind::tensor;
    gradient_.push_back(stored && graph.tensors[value.tensor].requires_grad);
  }
}

ValueId FunctionalBuilder::add_value(Value like) {
  const auto id = static_cast<ValueId>(graph_.values.size());
  like.name = unique(like.name);
  like.kind = Value::Kind::intermediate;
  like.tensor = -1;
  graph_.values.push_back(std::move(like));
  gradient_.push_back(false);
  return id;
}

std::string FunctionalBuilder::unique(const std::string& name) {
  std::string candidate;
  for (int n = 1; !names_.insert(candidate = fmt::format("{}_now{}", name, n)).second; ++n) {
  }
  return candidate;
}

void FunctionalBuilder::emit(Operator op) {
  const auto reads = op.reads();
  const bool gradient =
      op.grad_enabled && std::ranges::any_of(reads, [&](ValueId v) { return gradient_[v]; });
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const ValueId output = op.outputs[i];
    if (output >= 0)
      gradient_[output] =
          gradient && !stops_gradient(op, i) && is_floating(graph_.values[output].dtype);
  }
  emitted_.push_back(std::move(op));
  emitted_for_.push_back(at);
}

void FunctionalBuilder::emit_helper(Operator op) {
  op.modules = at_work().modules;
  op.name = unique(at_work().name);
  emit(std::move(op));
  helpers_.insert(emitted_.size() - 1);
}

void FunctionalBuilder::finish() {
  drop_unused();
  graph_.operators = std::move(emitted_);
  move_markers();
  renumber();
}

/// Drops the helpers that nobody reads.
void FunctionalBuilder::drop_unused() {
  std::vector<bool> used(graph_.values.size(), false);
  const auto use = [&](ValueId v) { used[static_cast<size_t>(v)] = true; };
  for (const Output& output : graph_.outputs)
    if (const auto* tensor = std::get_if<TensorRef>(&output.value)) use(tensor->value);
  for (const BufferUpdate& update : graph_.updates) use(update.value);
  for (size_t id = emitted_.size(); id-- > 0;) {
    const auto read = [&](ValueId v) { return v >= 0 && used[static_cast<size_t>(v)]; };
    if (helpers_.contains(id) && std::ranges::none_of(emitted_[id].outputs, read)) {
      emitted_.erase(emitted_.begin() + static_cast<std::ptrdiff_t>(id));
      emitted_for_.erase(emitted_for_.begin() + static_cast<std::ptrdiff_t>(id));
    } else {
      for (const ValueId v : emitted_[id].reads()) use(v);
    }
  }
}

void FunctionalBuilder::move_markers() {
  for (OperatorId& marker : graph_.markers)
    marker = static_cast<OperatorId>(std::ranges::lower_bound(emitted_for_, marker) -
                                     emitted_for_.begin());
}

/// Leaves out values without a producer, and numbers the others and their producers anew.
void FunctionalBuilder::renumber() {
  for (Value& value : graph_.values) value.producer = -1;
  for (size_t id = 0; id < graph_.operators.size(); ++id)
    for (const ValueId v : graph_.operators[id].outputs)
      if (v >= 0) graph_.values[v].producer = static_cast<OperatorId>(id);
  std::vector<ValueId> number(graph_.values.size(), -1);
  std::vector<Value> kept;
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    const Value& value = graph_.values[v];
    if (value.kind == Value::Kind::intermediate && value.producer < 0) continue;
    number[v] = static_cast<ValueId>(kept.size());
    kept.push_back(value);
  }
  graph_.values = std::move(kept);
  const auto change = [&](ArgumentValue& value) {
    if (auto* one = std::get_if<TensorRef>(&value)) one->value = number[one->value];
    if (auto* list = std::get_if<TensorList>(&value))
      for (auto& element : list->values)
        if (element) element = number[*element];
  };
  for (Operator& op : graph_.operators) {
    for (Argument& argument : op.arguments) change(argument.value);
    for (ValueId& output : op.outputs)
      if (output >= 0) output = number[output];
  }
  for (Output& output : graph_.outputs) change(output.value);
  for (ValueId& input : graph_.inputs) input = number[input];
  for (BufferUpdate& update : graph_.updates) update.value = number[update.value];
}

}  // namespace penstock
