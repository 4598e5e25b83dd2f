// How long collectives take: of replicas that sum gradients, of the parts of a tensor group.
#pragma once

#include <cstdint>

#include "graph/sharding/conversions.hpp"
#include "simulator/network/cluster.hpp"

namespace penstock {

/// Sums `bytes` over `ranks` joined by such links. Ring: each rank moves 2 (n - 1) / n of them in
/// 2 (n - 1) rounds (Patarasuk and Yuan, 2009). Tree: up and down a binary tree, 2 ceil(log2 n)
/// rounds of all bytes (Thakur, Rabenseifner and Gropp, 2005). 0 for one rank.
double all_reduce_s(AllReduce::Algorithm algorithm, const Link& link, int64_t bytes, int64_t ranks);

/// Bytes that each rank sends and receives when it sums `bytes` over `ranks`, whatever the way.
double summed_bytes(int64_t bytes, int64_t ranks);

/// Seconds that a tensor group of so many ranks takes for a tensor of `bytes` as a whole, over a
/// ring of such links: sharding::bytes_sent, and a latency for each round, 2 (parts - 1) of an
/// all-reduce, parts - 1 of other collectives. 0 for steps in which nothing is sent.
double collective_s(sharding::Step step, int64_t bytes, int parts, const Link& link);

}  // namespace penstock
