// States of the search that no cheaper one makes useless. Internal to complete.
#pragma once

#include <vector>

#include "graph/sharding/problem.hpp"

namespace penstock::sharding {

struct State {
  std::vector<Held> held;  // of each value in use
  int64_t cost;
  int decision;     // the last one that led here
  int option = -1;  // and what is taken now
};

struct Kept {
  std::vector<State> states;
  bool all = true;  // false where there were more than `width`, and the costliest were dropped
};

/// Cheapest first, those that a cheaper one cannot turn into for what they cost more, by converting
/// the values of `live` one by one.
Kept undominated(const Problem& problem, const std::vector<ValueId>& live,
                 std::vector<State> states, size_t width);

}  // namespace penstock::sharding
