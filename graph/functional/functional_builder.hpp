// The graph without writes, as it grows: functional.cpp says what goes into it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace penstock {

class FunctionalBuilder {
 public:
  /// Takes the operators out of `graph`, whose values stay and get more.
  explicit FunctionalBuilder(Graph& graph);

  /// The operators that were taken out.
  const std::vector<Operator>& old() const { return old_; }
  /// The old operator whose turn it is; what is emitted now replaces it.
  OperatorId at = 0;
  const Operator& at_work() const { return old_[static_cast<size_t>(at)]; }

  /// A new value like another one.
  ValueId add_value(Value like);
  void emit(Operator op);
  /// An operator that the export does not have; it gets name and modules from the one at work, and
  /// is left out in the end if nobody reads it.
  void emit_helper(Operator op);
  /// Would autograd follow it?
  bool needs_gradient(ValueId value) const { return gradient_[static_cast<size_t>(value)]; }

  /// Puts the operators into the graph; values that no operator gives are left out.
  void finish();

 private:
  std::string unique(const std::string& name);
  void drop_unused();
  void move_markers();
  void renumber();

  Graph& graph_;
  const std::vector<Operator> old_;
  std::vector<bool> gradient_;   // by value
  std::set<std::string> names_;  // taken
  std::vector<Operator> emitted_;
  std::vector<OperatorId> emitted_for_;  // of old_, ascending
  std::set<size_t> helpers_;             // of emitted_
};

}  // namespace penstock
