// Stretches of operators that are alike, as the blocks of a transformer are. Internal to complete.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "graph/sharding/dominance.hpp"
#include "graph/sharding/problem.hpp"

namespace penstock::sharding {

/// The states before a node.
struct Frontier {
  OperatorId node;
  std::vector<ValueId> live;
  std::vector<State> states;
  int decisions;  // made by then
};

/// For each state's decision at `first` that of the state at `second` that goes on like it: that
/// holds the same, and costs as much more as all others. Those that cost more than `max_cost` by
/// then need none. Nothing where a state has no other.
std::optional<std::map<int, int>> same_decisions(const Frontier& first, const Frontier& second,
                                                 int64_t max_cost);

/// How often each value is read, and by which node last (-1: by none).
struct Uses {
  std::vector<int> reads;
  std::vector<OperatorId> last;
  explicit Uses(const Problem& problem);
};

class Repeats {
 public:
  Repeats(const Problem& problem, const Uses& uses);

  /// Nodes from which on the next few look alike have one kind.
  int kind(OperatorId node) const { return kinds_[node]; }
  bool is_repeated(OperatorId node) const { return count_[kinds_[node]] > 1; }

  /// For each value that is in use before `first`, or comes up before `second`, the value that is
  /// to the nodes from `second` on what it is to those from `first` on. Nothing unless the nodes
  /// from `second` on choose among the same as those before it, as far as those go.
  std::optional<std::map<ValueId, ValueId>> counterparts(
      OperatorId first, OperatorId second, const std::vector<ValueId>& in_use_at_first,
      const std::vector<ValueId>& in_use_at_second) const;

 private:
  const Problem& problem_;
  const Uses& uses_;
  std::vector<int> kinds_, count_;
};

}  // namespace penstock::sharding
