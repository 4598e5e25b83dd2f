#include "graph/analysis/analysis.hpp"

#include <algorithm>

#include "graph/operators/facts.hpp"

namespace penstock {
namespace {

bool depends_on_batch(const std::vector<Expression>& sizes) {
  return std::any_of(sizes.begin(), sizes.end(),
                     [](const Expression& size) { return size.depends_on_batch(); });
}

/// An argument is an expression in the batch.
bool depends_on_batch(const Operator& op) {
  return std::any_of(op.arguments.begin(), op.arguments.end(), [](const Argument& argument) {
    if (const auto* size = std::get_if<Expression>(&argument.value))
      return size->depends_on_batch();
    const auto* sizes = std::get_if<std::vector<Expression>>(&argument.value);
    return sizes && depends_on_batch(*sizes);
  });
}

bool is_trainable(const StoredTensor& tensor) {
  return tensor.kind == StoredTensor::Kind::parameter && tensor.requires_grad;
}

/// Sources that a value is computed from, each bit joined along the data flow.
struct Origins {
  bool outside = false;    // a user input, an updated buffer, a random number
  bool parameter = false;  // a trainable parameter
  bool batch = false;      // the size of the batch
};

class Analyser {
 public:
  explicit Analyser(const Graph& graph) : graph_(graph), origins_(graph.values.size()) {
    const size_t count = graph.values.size();
    result_.constant.resize(count);
    result_.parameter_derived.resize(count);
    result_.requires_grad.resize(count);
  }

  Analysis run() {
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id)
      if (graph_.values[id].kind != Value::Kind::intermediate) enter_source(id);
    for (const Operator& op : graph_.operators) enter_operator(op);
    return std::move(result_);
  }

 private:
  void enter_source(ValueId id) {
    const Value& value = graph_.values[id];
    Origins& origins = origins_[id];
    origins.outside = value.kind == Value::Kind::user_input || is_updated(value.tensor);
    if (!origins.outside && is_trainable(graph_.tensors[value.tensor])) {
      origins.parameter = true;
      result_.requires_grad[id] = is_floating(value.dtype);
    }
    result_.constant[id] = !origins.outside && !origins.parameter;
  }

  void enter_operator(const Operator& op) {
    Origins joined{is_random(op), false, depends_on_batch(op)};
    bool gradient = false;
    for (const ValueId read : op.reads()) {
      joined.outside |= origins_[read].outside;
      joined.parameter |= origins_[read].parameter;
      joined.batch |= origins_[read].batch;
      gradient |= result_.requires_grad[read];
    }
    for (const ValueId id : op.outputs)
      if (id >= 0) joined.batch |= depends_on_batch(graph_.values[id].shape);
    // A value of parameters and the batch is neither constant nor parameter-derived: it is sent.
    joined.outside |= joined.parameter && joined.batch;
    for (size_t i = 0; i < op.outputs.size(); ++i)
      if (op.outputs[i] >= 0) enter_output(op, i, joined, gradient);
  }

  void enter_output(const Operator& op, size_t i, const Origins& origins, bool gradient) {
    const ValueId id = op.outputs[i];
    origins_[id] = origins;
    result_.constant[id] = !origins.outside && !origins.parameter;
    result_.parameter_derived[id] = !origins.outside && origins.parameter;
    result_.requires_grad[id] = gradient && op.grad_enabled && !stops_gradient(op, i) &&
                                is_floating(graph_.values[id].dtype);
  }

  bool is_updated(int tensor) const {
    return std::any_of(graph_.updates.begin(), graph_.updates.end(),
                       [&](const BufferUpdate& update) { return update.tensor == tensor; });
  }

  const Graph& graph_;
  std::vector<Origins> origins_;
  Analysis result_;
};

}  // namespace

Analysis analyse(const Graph& graph) { return Analyser(graph).run(); }

bool is_recomputed(const Operator& op, const Analysis& analysis) {
  bool any = false;
  for (const ValueId output : op.outputs) {
    if (output < 0) continue;
    if (!analysis.constant[output] && !analysis.parameter_derived[output]) return false;
    any = true;
  }
  return any;
}

std::vector<OperatorId> operators_behind(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<bool> needed(graph.values.size());
  for (const ValueId value : values) needed[value] = true;
  std::vector<OperatorId> operators;
  for (auto id = static_cast<OperatorId>(graph.operators.size()) - 1; id >= 0; --id) {
    const Operator& op = graph.operators[id];
    if (std::ranges::none_of(op.outputs, [&](ValueId v) { return v >= 0 && needed[v]; })) continue;
    operators.push_back(id);
    for (const ValueId read : op.reads()) needed[read] = true;
  }
  std::ranges::reverse(operators);
  return operators;
}

}  // namespace penstock
