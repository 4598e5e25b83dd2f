// Plans a run anew for fewer ranks, with which it goes on from a checkpoint (--shrink).
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "launch/supervision/succession.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/profile/profile.hpp"
#include "simulator/network/cluster.hpp"

namespace penstock::cli {

/// The files that a plan was made from, but for its model.
struct PlannedFrom {
  Profile profile;
  std::optional<Cluster> cluster;
  std::vector<int> devices;  // of a cluster of nodes, by process of the run; else empty
};

/// `survive`: as the flag says. Of a cluster of nodes the processes of ranks have the plan's
/// devices, in order, and spares those that are next. Throws InputError where the plan names no
/// profile, or a cluster without devices for spares, and for `random: by_part`.
PlannedFrom planned_from(const Plan& plan, const std::string& survive, int64_t spares);

/// The fastest plan that trains as `plan` does on these processes, or some of them: its job, in
/// microbatches of the same size, so that losses differ by rounding alone. Throws InputError where
/// none fits the memory, SearchStopped where `stop` says so before one is found.
Plan smaller_plan(const Plan& plan, const std::set<int>& alive, const PlannedFrom& from,
                  const Graph& model, const std::function<bool()>& stop);

/// The process of each of its ranks: the one that has its device, else the first ones.
Assignment assign_on_devices(const Plan& smaller, const std::set<int>& alive,
                             const PlannedFrom& from);

}  // namespace penstock::cli
