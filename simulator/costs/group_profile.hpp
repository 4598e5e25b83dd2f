// Costs of the ranks of tensor groups: the profile's of their graph, and what goes between the
// parts of a group.
#pragma once

#include "graph/graph.hpp"
#include "pipeline/plan/plan.hpp"
#include "pipeline/profile/profile.hpp"
#include "simulator/network/cluster.hpp"

namespace penstock {

/// The profile's costs of groups like the plan's, of the plan's microbatch. Throws InputError where
/// it has none, and says what it has.
const GroupCosts& group_costs(const Plan& plan, const Profile& profile);

/// The profile as a rank of such a group has it: `group`'s microbatches in place of those of the
/// whole model, without replays, each conversion of `local` (graph/sharding/collectives.hpp) with
/// the time of its messages, forward and backward. All parts wait for each other there, so it is
/// time of the rank like any other. Over group_link(*grouped); without a cluster over the link
/// that the profile measured sums on. `local`: the graph that `group` has the costs of.
Profile group_profile(const Profile& profile, const GroupCosts& group, const Graph& local,
                      const Cluster* grouped);

}  // namespace penstock
