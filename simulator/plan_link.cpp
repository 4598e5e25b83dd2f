// Links and all-reduces as a profile measured them.
#include <algorithm>

#include "graph/error.hpp"
#include "simulator/plan_costs.hpp"

namespace penstock {

double all_reduce_s(const Profile& profile, int64_t bytes, int64_t ranks) {
  if (profile.links.empty()) return 0;
  const LinkCost& link = profile.links.front();
  const double share = 2.0 * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  return 2.0 * static_cast<double>(ranks - 1) * link.latency_s +
         (link.bandwidth > 0 ? share * static_cast<double>(bytes) / link.bandwidth : 0.0);
}

namespace {

/// As it is during a step: `gloo-busy`, measured beside compute, where the profile has it. A fit
/// without a slope (small messages, a noisy machine) takes the bandwidth of the idle link.
LinkCost link_during_step(const Profile& profile) {
  const LinkCost& idle = profile.links.front();
  const auto busy = std::ranges::find(profile.links, idle.kind + "-busy", &LinkCost::kind);
  if (busy == profile.links.end()) return idle;
  LinkCost link = *busy;
  if (link.bandwidth <= 0) link.bandwidth = idle.bandwidth;
  return link;
}

}  // namespace

Link plan_link(const Profile& profile, const Cluster* cluster) {
  if (cluster) return cluster->link;
  if (profile.links.empty()) {
    throw InputError(profile.path, "no link between ranks was measured",
                     "Name a cluster whose link is described: --cluster CLUSTER.yaml.");
  }
  const LinkCost measured = link_during_step(profile);
  // Gloo moves no byte before the receiver has posted, and NCCL's sends wait for their peer's kernel.
  return {.latency_s = measured.latency_s,
          .bandwidth = measured.bandwidth,
          .sender_s_per_byte = measured.sender_s_per_byte,
          .receiver_s_per_byte = measured.receiver_s_per_byte,
          .mode = measured.kind == "local" ? SendMode::eager : SendMode::posted};
}

}  // namespace penstock
