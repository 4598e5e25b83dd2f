// The values of a stage that share memory, and those that operators change in place. A model in
// normal form has no such operator; a foreign file may.
#pragma once

#include <set>
#include <vector>

#include "backend/operators/interpreter.hpp"
#include "graph/analysis/analysis.hpp"

namespace penstock {

class Aliases {
 public:
  /// Throws InputError for an operator that changes a parameter in place.
  Aliases(const Graph& graph, const Analysis& analysis,
          const std::vector<PreparedOperator>& operators);

  /// The value that owns its memory.
  ValueId root(ValueId value) const { return roots_[static_cast<size_t>(value)]; }
  /// Does an operator change its memory? Constants that only constants change do not count.
  bool changed(ValueId value) const { return changed_.contains(root(value)); }
  const std::set<ValueId>& changed_roots() const { return changed_; }

 private:
  std::vector<ValueId> roots_;
  std::set<ValueId> changed_;
};

}  // namespace penstock
