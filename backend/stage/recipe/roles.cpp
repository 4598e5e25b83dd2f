#include "backend/stage/recipe/roles.hpp"

#include <algorithm>

#include "backend/stage/recipe/aliases.hpp"
#include "backend/stage/recipe/chains.hpp"
#include "backend/stage/recipe/value_roles.hpp"
#include "base/error.hpp"
#include "graph/operators/facts.hpp"

namespace penstock {
namespace {

/// The second pass over a stage: how an operator reads its inputs.
StageOperator stage_operator(const Analysis& analysis, const std::vector<ValueRole>& roles,
                             OperatorId id, const PreparedOperator& prepared) {
  const Operator& op = prepared.op();
  StageOperator result{.id = id, .prepared = prepared, .random = is_random(op)};
  bool differentiable = false;
  for (const ValueId output : op.outputs) {
    if (output < 0) continue;
    result.role = roles[index(output)];
    differentiable = differentiable || analysis.requires_grad[index(output)];
  }
  if (!op.grad_enabled || !differentiable) return result;
  for (const ValueId read : op.reads()) {
    const ValueRole role = roles[index(read)];
    const bool chained = role == ValueRole::step_chain || role == ValueRole::microbatch_chain;
    if (chained && role == result.role)
      result.connected.push_back(read);
    else if (from_parameters(role))
      result.leaves.push_back(read);
  }
  result.weight = result.role == ValueRole::data && !result.leaves.empty();
  return result;
}

std::vector<ValueId> received_values(const Slicing& slicing, int stage) {
  std::set<ValueId> received;
  for (const StageEdge& edge : slicing.edges) {
    if (edge.consumer != stage) continue;
    for (const Crossing& crossing : edge.values) received.insert(crossing.value);
  }
  return {received.begin(), received.end()};
}

/// Assertions compute nothing and are left out.
std::vector<OperatorId> operators_to_run(const Graph& graph, const StageSlice& slice) {
  std::vector<OperatorId> result;
  for (const OperatorId id : slice.operators) {
    const Operator& op = graph.operators[index(id)];
    const bool empty = std::ranges::all_of(op.outputs, [](ValueId v) { return v < 0; });
    if (!is_assertion(op) || !empty) result.push_back(id);
  }
  return result;
}

/// Received values are contiguous, whatever their strides in the export.
void refuse_strides_of_received(const Graph& graph, const Aliases& aliases,
                                const std::vector<ValueId>& received, const Operator& op) {
  if (op.target != "aten::as_strided") return;
  const ValueId source = aliases.root(op.reads().front());
  if (!std::ranges::binary_search(received, source)) return;
  throw InputError(graph.path,
                   describe(op) + " depends on the strides of `" +
                       graph.values[index(source)].name + "`, which comes from another stage",
                   "let this stage begin before that value is computed");
}

}  // namespace

bool from_parameters(ValueRole role) {
  return role == ValueRole::parameter || role == ValueRole::view || role == ValueRole::step_chain ||
         role == ValueRole::microbatch_chain;
}

StageRoles assign_roles(const Graph& graph, const Analysis& analysis, const Slicing& slicing,
                        int stage, TensorStore& store) {
  const StageSlice& slice = slicing.stages.at(index(stage));
  const std::vector<OperatorId> ids = operators_to_run(graph, slice);
  std::vector<PreparedOperator> prepared;
  prepared.reserve(ids.size());
  for (const OperatorId id : ids) {
    prepared.emplace_back(graph, graph.operators[index(id)], store.device());
  }
  const Aliases aliases(graph, analysis, prepared);
  StageRoles roles;
  roles.received = received_values(slicing, stage);
  for (const BufferUpdate& update : slice.updates) roles.updates[update.tensor] = update.value;
  ValueRoles(graph, analysis, aliases, store, roles).assign(prepared);
  for (const PreparedOperator& op : prepared) {
    refuse_strides_of_received(graph, aliases, roles.received, op.op());
  }
  mark_step_chains(graph, analysis, aliases, prepared, roles.of);
  for (size_t k = 0; k < ids.size(); ++k) {
    StageOperator op = stage_operator(analysis, roles.of, ids[k], prepared[k]);
    if (op.role != ValueRole::view) roles.operators.push_back(std::move(op));
  }
  return roles;
}

}  // namespace penstock
