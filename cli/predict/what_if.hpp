// The step of a plan with more memory or faster links.
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

}  // namespace penstock::cli
