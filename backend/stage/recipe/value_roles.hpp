// The first pass over a stage: a role for every value.
#pragma once

#include <vector>

#include "backend/stage/recipe/aliases.hpp"
#include "backend/stage/recipe/parameter_views.hpp"
#include "backend/stage/recipe/roles.hpp"

namespace penstock {

class ValueRoles {
 public:
  /// Fills `roles.of`, `views`, `copied` and `updates`; `received` and the updates of the graph are
  /// filled already.
  ValueRoles(const Graph& graph, const Analysis& analysis, const Aliases& aliases,
             TensorStore& store, StageRoles& roles);
  void assign(const std::vector<PreparedOperator>& operators);

 private:
  void assign_inputs();
  ValueRole& role(ValueId value) { return roles_.of[static_cast<size_t>(value)]; }
  ValueRole stored_role(ValueId id);
  bool all_constant(const Operator& op);
  ValueRole role_of_outputs(const PreparedOperator& prepared);
  void spread_writes(const PreparedOperator& prepared);

  const Graph& graph_;
  const Analysis& analysis_;
  const Aliases& aliases_;
  StageRoles& roles_;
  ParameterViews views_;
};

}  // namespace penstock
