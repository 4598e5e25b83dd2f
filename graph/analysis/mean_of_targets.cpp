#include "graph/analysis/mean_of_targets.hpp"

#include <algorithm>

#include "graph/operators/facts.hpp"

namespace penstock {
namespace {

constexpr int64_t reduces_to_mean = 1, reduces_to_sum = 2;  // at::Reduction

std::optional<ValueId> tensor(const Operator& op, const std::string& name) {
  const ArgumentValue* value = argument(op, name);
  const auto* ref = value ? std::get_if<TensorRef>(value) : nullptr;
  return ref ? std::optional(ref->value) : std::nullopt;
}

/// Is it trained, or changed by a step?
bool changes(const Graph& graph, const Value& value) {
  if (value.kind != Value::Kind::tensor) return false;
  return graph.tensors[value.tensor].requires_grad ||
         std::ranges::count(graph.updates, value.tensor, &BufferUpdate::tensor) > 0;
}

bool is_read(const Graph& graph, ValueId value) {
  return std::ranges::any_of(
             graph.operators,
             [&](const Operator& op) { return std::ranges::count(op.reads(), value) > 0; }) ||
         std::ranges::count(graph.updates, value, &BufferUpdate::value) > 0;
}

}  // namespace

std::optional<MeanOfTargets> mean_of_targets(const Graph& graph, const Analysis& analysis,
                                             OperatorId id) {
  const Operator& op = graph.operators[id];
  if (!counts_targets(op) || number(op, "reduction", reduces_to_mean) != reduces_to_mean)
    return std::nullopt;
  const std::optional<ValueId> target = tensor(op, "target");
  if (!target || analysis.constant[*target] || is_floating(graph.values[*target].dtype))
    return std::nullopt;
  return MeanOfTargets{id, *target, tensor(op, "weight"),
                       static_cast<int64_t>(number(op, "ignore_index", -100))};
}

std::optional<MeanLoss> mean_loss(const Graph& graph, const Analysis& analysis) {
  const std::optional<ValueId> output = graph.first_output();
  const OperatorId producer = output ? graph.values[*output].producer : -1;
  if (producer < 0 || graph.operators[producer].outputs.front() != *output) return std::nullopt;
  const std::optional<MeanOfTargets> mean = mean_of_targets(graph, analysis, producer);
  if (!mean || is_read(graph, *output)) return std::nullopt;
  std::vector<ValueId> values{mean->target};
  if (mean->class_weights) values.push_back(*mean->class_weights);
  MeanLoss loss{*mean, operators_behind(graph, values)};
  for (const OperatorId id : loss.operators) {
    if (is_random(graph.operators[id])) return std::nullopt;
    for (const ValueId read : graph.operators[id].reads()) values.push_back(read);
  }
  const auto varies = [&](ValueId value) { return changes(graph, graph.values[value]); };
  return std::ranges::any_of(values, varies) ? std::nullopt : std::optional(loss);
}

std::set<ValueId> values_read(const Graph& graph, const MeanLoss& mean) {
  std::set<ValueId> values{mean.target};
  if (mean.class_weights) values.insert(*mean.class_weights);
  for (const OperatorId id : mean.operators)
    for (const ValueId read : graph.operators[static_cast<size_t>(id)].reads()) values.insert(read);
  return values;
}

Graph with_sum(Graph graph, const MeanLoss& loss) {
  std::vector<Argument>& arguments = graph.operators[loss.op].arguments;
  std::erase_if(arguments, [](const Argument& each) { return each.name == "reduction"; });
  arguments.push_back({"reduction", reduces_to_sum});
  return graph;
}

}  // namespace penstock
