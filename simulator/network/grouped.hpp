// Clusters whose ranks are tensor groups.
#pragma once

#include <vector>

#include "simulator/network/cluster.hpp"

namespace penstock {

/// The cluster as one part of every tensor group has it. A rank of it is a group of `parts`
/// neighbouring devices of a node; it has the memory and the speed of one of them, and of what the
/// node's devices share (bus, cards, cores) and of the switch what is left to one part, since all
/// of a group send at the same time. Devices that are left over in a node are not used. Throws
/// InputError where no node has so many. `cluster` uses all of its devices, as listed.
Cluster grouped(const Cluster& cluster, int parts);

/// For each rank of grouped(cluster, parts) its devices in `cluster`, part by part.
std::vector<std::vector<int>> devices_of_groups(const Cluster& cluster, int parts);

/// The devices of so many ranks of tensor groups, by rank of the run. `groups`: ranks of the
/// grouped cluster that they are, empty: as listed. Empty where these are the cluster's as listed.
std::vector<int> devices_of_ranks(const Cluster& cluster, int64_t parts,
                                  const std::vector<int>& groups, int ranks);

/// Between two parts of a group of a grouped cluster, while all of the group send: of several kinds
/// of nodes the longest latency and the least bandwidth.
Link group_link(const Cluster& grouped);

}  // namespace penstock
