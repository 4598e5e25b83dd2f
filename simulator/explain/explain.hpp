// Why a step takes as long as it does: what a person is shown beside the times themselves.
#pragma once

#include <vector>

#include "simulator/explain/critical_path.hpp"
#include "simulator/explain/idle.hpp"

namespace penstock {

/// Programs with more actions take seconds to explain, and gigabytes to draw.
inline constexpr int64_t max_explained_actions = 1'000'000;

struct Explanation {
  CriticalPath path;
  std::vector<IdleParts> idle;  // per rank
  int limiting_rank = 0;        // the one that computes longest on the path; the first of equals
};

/// Throws InputError for a program that cannot finish, as `simulate` does.
Explanation explain(const Program& lowered, const Costs& costs, const Network& network);

}  // namespace penstock
