// Facts about a graph that all estimates need, derived once.
#pragma once

#include <vector>

#include "graph/analysis/analysis.hpp"
#include "graph/graph.hpp"
#include "graph/sharding/saved.hpp"

namespace penstock {

class EstimateModel {
 public:
  /// `graph` outlives it.
  explicit EstimateModel(const Graph& graph);

  const Graph& graph() const { return graph_; }
  const Analysis& analysis() const { return analysis_; }
  const Value& value(ValueId id) const { return graph_.values[static_cast<size_t>(id)]; }
  const Operator& op(OperatorId id) const { return graph_.operators[static_cast<size_t>(id)]; }
  int operators() const { return static_cast<int>(graph_.operators.size()); }
  bool requires_grad(ValueId id) const { return analysis_.requires_grad[static_cast<size_t>(id)]; }

  /// The first output shares memory with its first input: a view, or a dropout that drops nothing.
  static bool is_alias(const Operator& op);
  /// Runs in every microbatch and does something: no alias, no assertion, no constant, nothing
  /// that is computed from parameters alone (these are computed once per step).
  bool works(const Operator& op) const;
  /// Has a backward: works or is an alias, and an output requires a gradient.
  bool differentiated(const Operator& op) const;

  /// A parameter, or computed from parameters alone.
  bool of_parameters(ValueId id) const;
  /// Values read that get a gradient: data (I computes it), and parameters (W does).
  std::vector<ValueId> data_operands(const Operator& op) const;
  std::vector<ValueId> parameter_operands(const Operator& op) const;

  /// When its result is gathered again in the backward.
  const sharding::GatheredIn& gathered_in(OperatorId id) const {
    return gathered_in_[static_cast<size_t>(id)];
  }

  /// The value whose memory this one shares, or itself.
  ValueId root(ValueId id) const { return roots_[static_cast<size_t>(id)]; }
  /// Is its memory of this microbatch: neither given (inputs, parameters) nor computed once?
  bool counts(ValueId id) const;
  /// The last operator that reads it, -1: none, operators(): it leaves the model.
  OperatorId last_reader(ValueId id) const { return last_readers_[static_cast<size_t>(id)]; }
  /// Operators that send a gradient to it.
  int gradients(ValueId id) const { return gradients_[static_cast<size_t>(id)]; }

 private:
  const Graph& graph_;
  Analysis analysis_;
  std::vector<sharding::GatheredIn> gathered_in_;
  std::vector<ValueId> roots_;
  std::vector<int> gradients_;
  std::vector<OperatorId> last_readers_;
};

}  // namespace penstock
