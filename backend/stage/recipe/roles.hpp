// The roles of a stage's values and operators in its backward.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "backend/operators/interpreter.hpp"
#include "backend/stage/recipe/parameter_views.hpp"
#include "graph/cuts/slice.hpp"

namespace penstock {

/// The id of a value, operator or tensor as a position in its table.
inline size_t index(int id) { return static_cast<size_t>(id); }

enum class ValueRole : uint8_t {
  plain,       // none of the others: random numbers, updated buffers, values without a gradient
  constant,    // computed once per batch size and kept
  data,        // depends on a received value or a user input
  parameter,   // stored, and requires a gradient
  view,        // a parameter's own elements: its gradient is a part of the parameter's
  step_chain,  // from parameters, by several operators: computed once per step
  microbatch_chain  // from parameters, by one operator, or with random numbers or the batch size
};

/// Does it depend on parameters alone, with a gradient?
bool from_parameters(ValueRole role);

struct StageOperator {
  OperatorId id;  // in the whole graph
  PreparedOperator prepared;
  ValueRole role = ValueRole::plain;  // of its outputs
  bool random = false;
  /// A weight operator: takes data and parameters, and its output requires a gradient.
  bool weight = false;
  /// Values read through a leaf, where this operator's gradients end: from parameters for a weight
  /// operator; parameters and values of the other kind of chain for an operator of a chain.
  std::vector<ValueId> leaves;
  /// Values of the same chain, read with their history.
  std::vector<ValueId> connected;
};

struct StageRoles {
  std::vector<ValueRole> of;             // by value id
  std::vector<StageOperator> operators;  // in graph order; without assertions, without views
  std::map<ValueId, ParameterViews::View> views;
  std::vector<ValueId> received;  // from other stages, ascending
  /// Stored values, inputs and received values that are read as copies, because the stage changes
  /// them in place or updates them at the end of the forward (autograd may have saved them).
  std::set<ValueId> copied;
  std::map<int, ValueId> updates;  // buffer, and the value it takes after the forward
};

/// Throws InputError for an operator that LibTorch does not have or that changes a parameter.
StageRoles assign_roles(const Graph& graph, const Analysis& analysis, const Slicing& slicing,
                        int stage, TensorStore& store);

}  // namespace penstock
