// In which layouts the values in use are held, along the operators. Internal to complete.
#pragma once

#include <vector>

#include "graph/sharding/complete.hpp"
#include "graph/sharding/problem.hpp"

namespace penstock::sharding {

struct Walk {
  const Problem& problem;
  std::vector<Held> held;  // of each value; none of a tensor that was not read yet
  int64_t cost = 0;
  Completion* record = nullptr;  // conversions, how tensors are kept, and bytes

  // Layouts are places among a value's choices. False where a weight that is split would be read in
  // another layout: to gather weights is no tensor parallelism.
  /// Before operator `op`: converts from what costs least, unless it is held so. A tensor that was
  /// not read yet is kept as it is pinned, and otherwise as it is read.
  bool read(OperatorId op, ValueId value, int place);
  /// All that an operator reads and gives; what it gives is held as it is pinned from then on.
  bool take(OperatorId op, const Option& option);

 private:
  bool give(OperatorId op, ValueId value, int place);
  void read_constant(OperatorId op, ValueId value, const Layout& layout);
  void keep(ValueId tensor, int place);
  bool convert(OperatorId before, ValueId value, int to);
};

/// The way from the cheapest of the layouts that are held to another: its start and its cost.
struct Way {
  int from;
  int64_t cost;
};
Way cheapest_way(const Choices& choices, Held held, int to);

}  // namespace penstock::sharding
