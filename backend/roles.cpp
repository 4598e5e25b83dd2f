#include "backend/roles.hpp"

#include <algorithm>

#include "backend/aliases.hpp"
#include "backend/chains.hpp"
#include "graph/error.hpp"
#include "graph/facts.hpp"

namespace penstock {
namespace {

using Operators = std::vector<PreparedOperator>;

size_t index(int id) { return static_cast<size_t>(id); }

/// The first pass: a role for every value.
class ValueRoles {
 public:
  ValueRoles(const Graph& graph, const Analysis& analysis, const Aliases& aliases,
             TensorStore& store, StageRoles& roles)
      : graph_(graph), analysis_(analysis), aliases_(aliases), roles_(roles),
        views_(graph, store) {}

  void note_inputs() {
    roles_.of.assign(graph_.values.size(), ValueRole::plain);
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (value.kind == Value::Kind::user_input) roles_.of[v] = ValueRole::data;
      if (value.kind == Value::Kind::tensor) roles_.of[v] = stored_role(static_cast<ValueId>(v));
    }
    for (const ValueId value : roles_.received) role(value) = ValueRole::data;
  }

  void note_operators(const Operators& operators) {
    for (const PreparedOperator& prepared : operators) {
      const ValueRole given = role_of_outputs(prepared);
      for (const ValueId output : prepared.op().outputs) {
        if (output >= 0) role(output) = given;
      }
      if (given == ValueRole::data) spread_writes(prepared);
    }
    roles_.views = views_.views();
  }

 private:
  ValueRole& role(ValueId value) { return roles_.of[index(value)]; }

  /// Buffers that change are copied at each read and committed at the end.
  ValueRole stored_role(ValueId id) {
    const int tensor = graph_.values[index(id)].tensor;
    if (aliases_.changed(id)) roles_.updates.emplace(tensor, id);
    if (roles_.updates.contains(tensor)) {
      roles_.copied.insert(id);
      return ValueRole::plain;
    }
    return graph_.tensors[index(tensor)].requires_grad ? ValueRole::parameter
                                                       : ValueRole::constant;
  }

  bool any_output(const Operator& op, const std::vector<bool>& fact) const {
    return std::ranges::any_of(op.outputs, [&](ValueId v) { return v >= 0 && fact[index(v)]; });
  }

  bool all_constant(const Operator& op) {
    const auto constant = [&](ValueId v) {
      return v < 0 || (analysis_.constant[index(v)] && !aliases_.changed(v));
    };
    return !op.outputs.empty() && std::ranges::all_of(op.outputs, constant) &&
           std::ranges::all_of(op.reads(),
                               [&](ValueId v) { return role(v) == ValueRole::constant; });
  }

  ValueRole role_of_outputs(const PreparedOperator& prepared) {
    const Operator& op = prepared.op();
    if (all_constant(op)) return ValueRole::constant;
    const auto is_data = [&](ValueId v) { return role(v) == ValueRole::data; };
    if (std::ranges::any_of(op.reads(), is_data)) return ValueRole::data;
    if (!op.grad_enabled || !any_output(op, analysis_.requires_grad)) return ValueRole::plain;
    const bool derived = any_output(op, analysis_.parameter_derived);
    return derived && views_.add(prepared) ? ValueRole::view : ValueRole::microbatch_chain;
  }

  /// Values that share memory with one into which data was written hold data too.
  void spread_writes(const PreparedOperator& prepared) {
    for (const ValueId written : prepared.writes()) {
      for (size_t v = 0; v < roles_.of.size(); ++v) {
        const bool same = aliases_.root(static_cast<ValueId>(v)) == aliases_.root(written);
        if (same) roles_.of[v] = ValueRole::data;
      }
    }
  }

  const Graph& graph_;
  const Analysis& analysis_;
  const Aliases& aliases_;
  StageRoles& roles_;
  ParameterViews views_;
};

/// The second pass: how an operator reads its inputs.
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
    if (chained && role == result.role) result.connected.push_back(read);
    else if (from_parameters(role)) result.leaves.push_back(read);
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

/// What arrives is contiguous, whatever its strides were in the export.
void refuse_strides_of_received(const Graph& graph, const Aliases& aliases,
                                const std::vector<ValueId>& received, const Operator& op) {
  if (op.target != "aten::as_strided") return;
  const ValueId source = aliases.root(op.reads().front());
  if (!std::ranges::binary_search(received, source)) return;
  throw InputError(graph.path, describe(op) + " depends on the strides of `" +
                   graph.values[index(source)].name + "`, which comes from another stage",
                   "let this stage begin before that value is computed");
}

}  // namespace

bool from_parameters(ValueRole role) {
  return role == ValueRole::parameter || role == ValueRole::view ||
         role == ValueRole::step_chain || role == ValueRole::microbatch_chain;
}

StageRoles assign_roles(const Graph& graph, const Analysis& analysis, const Slicing& slicing,
                        int stage, TensorStore& store) {
  const StageSlice& slice = slicing.stages.at(index(stage));
  const std::vector<OperatorId> ids = operators_to_run(graph, slice);
  Operators prepared;
  for (const OperatorId id : ids) {
    prepared.emplace_back(graph, graph.operators[index(id)], store.device());
  }
  const Aliases aliases(graph, analysis, prepared);
  StageRoles roles;
  roles.received = received_values(slicing, stage);
  roles.copied = aliases.changed_roots();
  for (const BufferUpdate& update : slice.updates) roles.updates[update.tensor] = update.value;
  ValueRoles values(graph, analysis, aliases, store, roles);
  values.note_inputs();
  values.note_operators(prepared);
  for (const PreparedOperator& op : prepared) {
    refuse_strides_of_received(graph, aliases, roles.received, op.op());
  }
  mark_step_chains(graph, analysis, prepared, roles.of);
  for (size_t k = 0; k < ids.size(); ++k) {
    StageOperator op = stage_operator(analysis, roles.of, ids[k], prepared[k]);
    if (op.role != ValueRole::view) roles.operators.push_back(std::move(op));
  }
  return roles;
}

}  // namespace penstock
