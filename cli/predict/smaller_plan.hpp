// Plans a run anew for fewer ranks, with which it goes on from a checkpoint (--shrink).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "graph/graph.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/profile/profile.hpp"
#include "simulator/network/cluster.hpp"

namespace penstock::cli {

/// The files that a plan was made from, but for its model.
struct PlannedFrom {
  Profile profile;
  std::optional<Cluster> cluster;
};

/// `survive`: as the flag says. Throws InputError where the plan names no profile, a profile of
/// another device than what the run is on, or a cluster of nodes, of which nobody knows which are
/// left.
PlannedFrom planned_from(const Plan& plan, const std::string& survive);

/// The fastest plan that trains as `plan` does on so many ranks at most: its job, in microbatches
/// of the same size, so that losses differ by rounding alone. Throws InputError where none fits the
/// memory, SearchStopped where `stop` says so before one is found.
Plan smaller_plan(const Plan& plan, int ranks, const PlannedFrom& from, const Graph& model,
                  const std::function<bool()>& stop);

}  // namespace penstock::cli
