// The cores that a plan's ranks compute on, where they have no devices of their own: the ranks of
// one machine lie on its cores as launch/placement.hpp says, and where they outnumber these they
// share them.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/profile/profile.hpp"
#include "simulator/network/cluster.hpp"

namespace penstock {

struct CoreUse {
  std::vector<std::vector<int>> of_rank;  // as in Costs; empty: no core is shared
  /// How fast a rank computes alone on its cores, relative to the profile: in proportion to the
  /// cores that it had there, of which it uses no more than it had threads.
  double speed = 1;
};

/// The cores of `replicas` x `ranks` processes, numbered replica after replica, or groups of so
/// many parts. On a cluster, which is a grouped one then, those of a node with `cores` share these;
/// elsewhere ranks share the cores of the profiled machine. Nothing is shared on GPUs, by other
/// devices of a cluster, and where the profile does not know its cores.
CoreUse core_use(const Profile& profile, const Cluster* cluster, int ranks, int64_t replicas,
                 int64_t parts = 1);

/// How many ranks of a replica the profiled machine keeps at the profiled speed, or infinitely
/// many: their work takes at least its sum divided by this. Of replicas of parts, as many as both.
double ranks_at_full_speed(const Profile& profile, const Cluster* cluster, int64_t replicas);

}  // namespace penstock
