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

/// The number of ranks: as asked for, or of the split, or of the cluster, or 2.
int choose_ranks(const PlanRequest& request, const Cluster* cluster, int chain_units);

/// Where the samples of a batch influence each other the number of microbatches changes the
/// training: it is chosen only with leave, and with a warning; likewise a warning where nobody
/// knows.
void check_coupling(const Graph& model, const PlanRequest& request,
                    std::vector<std::string>& warnings);

}  // namespace penstock
