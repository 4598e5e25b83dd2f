// A line about the cores that ranks compute on.
#pragma once

#include <string>

#include "pipeline/profile/profile.hpp"
#include "planner/plan.hpp"
#include "simulator/engine/costs.hpp"

namespace penstock::cli {

/// `4 ranks share 2 cores`, all replicas counted; "" where each rank has cores of its own.
std::string cores_note(const Costs& costs);

/// The same of a plan; where more ranks were asked for than there are cores, and fewer are planned,
/// it says that. `cluster` may be null.
std::string cores_note(const Planned& planned, const Profile& profile, const Cluster* cluster);

}  // namespace penstock::cli
