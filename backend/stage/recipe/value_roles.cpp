#include "backend/stage/recipe/value_roles.hpp"

#include <algorithm>

namespace penstock {
namespace {

bool any_output(const Operator& op, const std::vector<bool>& fact) {
  return std::ranges::any_of(op.outputs, [&](ValueId v) { return v >= 0 && fact[index(v)]; });
}

}  // namespace

ValueRoles::ValueRoles(const Graph& graph, const Analysis& analysis, const Aliases& aliases,
                       TensorStore& store, StageRoles& roles)
    : graph_(graph), analysis_(analysis), aliases_(aliases), roles_(roles), views_(graph, store) {
  roles_.copied = aliases.changed_roots();
}

void ValueRoles::assign(const std::vector<PreparedOperator>& operators) {
  assign_inputs();
  for (const PreparedOperator& prepared : operators) {
    const ValueRole given = role_of_outputs(prepared);
    for (const ValueId output : prepared.op().outputs) {
      if (output >= 0) role(output) = given;
    }
    if (given == ValueRole::data) spread_writes(prepared);
  }
  roles_.views = views_.views();
}

void ValueRoles::assign_inputs() {
  roles_.of.assign(graph_.values.size(), ValueRole::plain);
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    const Value& value = graph_.values[v];
    if (value.kind == Value::Kind::user_input) roles_.of[v] = ValueRole::data;
    if (value.kind == Value::Kind::tensor) roles_.of[v] = stored_role(static_cast<ValueId>(v));
  }
  for (const ValueId value : roles_.received) role(value) = ValueRole::data;
}

/// Buffers that change are copied at each read and committed at the end.
ValueRole ValueRoles::stored_role(ValueId id) {
  const int tensor = graph_.values[index(id)].tensor;
  if (aliases_.changed(id)) roles_.updates.emplace(tensor, id);
  if (roles_.updates.contains(tensor)) {
    roles_.copied.insert(id);
    return ValueRole::plain;
  }
  return graph_.tensors[index(tensor)].requires_grad ? ValueRole::parameter : ValueRole::constant;
}

bool ValueRoles::all_constant(const Operator& op) {
  const auto constant = [&](ValueId v) {
    return v < 0 || (analysis_.constant[index(v)] && !aliases_.changed(v));
  };
  return !op.outputs.empty() && std::ranges::all_of(op.outputs, constant) &&
         std::ranges::all_of(op.reads(), [&](ValueId v) { return role(v) == ValueRole::constant; });
}

ValueRole ValueRoles::role_of_outputs(const PreparedOperator& prepared) {
  const Operator& op = prepared.op();
  if (all_constant(op)) return ValueRole::constant;
  const auto is_data = [&](ValueId v) { return role(v) == ValueRole::data; };
  if (std::ranges::any_of(op.reads(), is_data)) return ValueRole::data;
  if (!op.grad_enabled || !any_output(op, analysis_.requires_grad)) return ValueRole::plain;
  const bool derived = any_output(op, analysis_.parameter_derived);
  return derived && views_.add(prepared) ? ValueRole::view : ValueRole::microbatch_chain;
}

/// Values that share memory with one that data was written to hold data too.
void ValueRoles::spread_writes(const PreparedOperator& prepared) {
  for (const ValueId written : prepared.writes()) {
    for (size_t v = 0; v < roles_.of.size(); ++v) {
      const bool same = aliases_.root(static_cast<ValueId>(v)) == aliases_.root(written);
      if (same) roles_.of[v] = ValueRole::data;
    }
  }
}

}  // namespace penstock
