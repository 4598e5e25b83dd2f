// Which values of a stage share memory, and which of them operators change in place. The normal
// form of a model has no such operator; a foreign file may.
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

  /// The value whose memory it is.
  ValueId root(ValueId value) const { return roots_[static_cast<size_t>(value)]; }
  /// Is its memory changed by an operator? Constants that only constants change do not count.
  bool changed(ValueId value) const { return changed_.contains(root(value)); }
  const std::set<ValueId>& changed_roots() const { return changed_; }

 private:
  std::vector<ValueId> roots_;
  std::set<ValueId> changed_;
};

}  // namespace penstock
