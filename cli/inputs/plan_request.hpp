// From the flags of `penstock plan` to what the planner is asked.
#pragma once

#include "cli/command_line/commands.hpp"
#include "planner/plan.hpp"

namespace penstock::cli {

/// Throws InputError for an objective or a way to share parameters that does not exist.
PlanRequest plan_request(const PlanOptions& options);

}  // namespace penstock::cli
