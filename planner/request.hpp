// Is a request one that can be planned? Each throws InputError, place: the flag or file.
#pragma once

#include <string>
#include <vector>

#include "planner/plan.hpp"

namespace penstock {

/// The profile is of this model, whole.
void check_model(const Profile& profile, const Graph& model);

/// Where the split points that were asked for divide the model; the first stage begins at 0.
std::vector<OperatorId> manual_begins(const Graph& model, const std::vector<std::string>& split);

/// With what a manual split implies: one stage per rank, or as many as the schedule always runs, and
/// one replica, unless they are named. Throws InputError for a schedule that does not exist.
PlanRequest completed(PlanRequest request);

/// How many ranks a plan may use in all: as asked for, or the split's, or the cluster's, or 2.
int choose_devices(const PlanRequest& request, const Cluster* cluster, int chain_units);

/// Where the samples of a batch influence each other the number of microbatches changes the
/// training: it is chosen only with leave, and with a warning; likewise a warning where nobody
/// knows.
void check_coupling(const Graph& model, const PlanRequest& request,
                    std::vector<std::string>& warnings);

}  // namespace penstock
