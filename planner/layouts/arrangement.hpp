// Which devices of a cluster the ranks of a layout use, and in which order.
//
// Tried are the kinds of device one after the other, in every order of up to four kinds, else as
// listed, fastest first and slowest first; and along each of these both ways to lay replicas:
//
//   apart      r0 r1 r2 | r0 r1 r2      a replica's ranks are neighbours: transfers stay in a node
//   together   r0 r0 | r1 r1 | r2 r2    a rank's replicas are neighbours: their sums stay
//                                       in a node, and they have devices of one kind
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/network/cluster.hpp"

namespace penstock {

/// For `ranks` of each of the replicas, as many devices as there are in all: the device of rank r
/// of replica d at d * ranks + r. First an empty one, the devices as listed; none that is like one
/// before it but for the numbers of equal nodes and devices.
std::vector<std::vector<int>> arrangements(const Cluster& cluster, int ranks, int64_t replicas);

}  // namespace penstock
