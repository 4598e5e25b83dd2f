// The step of a plan with more memory or faster links, or without limits to them.
#pragma once

#include <string>
#include <vector>

#include "planner/plan.hpp"

namespace penstock::cli {

struct WhatIf {
  std::string change;  // `1 GB more memory per rank`
  double step_s = 0;   // of the best plan then
  std::string plan;    // its schedule and shape
};

/// Plans again with a gigabyte more per rank (where memory is limited), and with links of twice the
/// bandwidth.
std::vector<WhatIf> what_if(const Planned& planned, const Profile& profile, const Graph& model,
                            const Cluster* cluster, const PlanRequest& request,
                            const Progress& progress);

/// Finds what keeps a plan from its bound, where an incomplete search ended more than 10 % above
/// what it has proven: plans again without the memory limit, then with free links as well, with
/// part of the effort each, until one is within 10 % of the bound by relaxation alone. What was
/// relaxed by then is the rest of the gap; where all of it was, that is whole units and
/// microbatches, filling and emptying.
std::vector<WhatIf> relaxed(const Planned& planned, const Profile& profile, const Graph& model,
                            const Cluster* cluster, const PlanRequest& request,
                            const Progress& progress);
/// A share of the bound.
inline constexpr double large_gap = 0.1;

}  // namespace penstock::cli
