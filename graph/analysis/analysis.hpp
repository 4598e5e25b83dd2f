// Data-flow analysis of a graph: what each value depends on, which decides what is sent,
// recomputed and differentiated.
#pragma once

#include <vector>

#include "graph/graph.hpp"

namespace penstock {

/// One entry per value of the graph.
struct Analysis {
  /// Depends on no user input, no trainable parameter, no updated buffer and nothing random:
  /// computed once in each stage that needs it, never sent.
  std::vector<bool> constant;
  /// Computed from trainable parameters (and constants) alone, nothing random, no batch symbol
  /// and not a parameter itself: computed in each stage that needs it from a replicated parameter.
  std::vector<bool> parameter_derived;
  /// Floating point and reached from a trainable parameter by operators that pass gradients.
  /// A user input never requires a gradient.
  std::vector<bool> requires_grad;
};

Analysis analyse(const Graph& graph);

/// Whether the operator computes constants or parameter-derived values alone: it is not part of the
/// data flow between stages, every stage that needs its result runs it.
bool is_recomputed(const Operator& op, const Analysis& analysis);

/// The operators that compute these values, ascending.
std::vector<OperatorId> operators_behind(const Graph& graph, const std::vector<ValueId>& values);

}  // namespace penstock
