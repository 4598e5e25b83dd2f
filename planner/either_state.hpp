// Plans with the optimizer's state replicated or sharded, whichever is better.
#pragma once

#include "planner/plan.hpp"

namespace penstock {

/// As make_plan: searches with the state replicated, then sharded, each with the request's effort,
/// and takes the plan that is better by the request's objective; the former where neither is.
Planned plan_in_either_state(const Profile& profile, const Graph& model, const Cluster* cluster,
                             PlanRequest request, const Progress& progress);

}  // namespace penstock
