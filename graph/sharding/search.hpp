// The dynamic programme along the operators. Internal to complete.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/sharding/complete.hpp"
#include "graph/sharding/problem.hpp"

namespace penstock::sharding {

struct Found {
  std::optional<Completion> completion;
  OperatorId failed = -1;  // without one: the node that nothing is left at
};

/// Keeps `width` states at an operator, and none that leads to a completion above `max_weighed`. A
/// block that begins as one that is alike did, with the same states at the same distances, ends as
/// that one did, and is not searched again.
Found search(const Problem& problem, size_t width, int64_t max_weighed);

}  // namespace penstock::sharding
