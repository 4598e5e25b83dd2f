// The network as the cluster describes it or as the profile measured it.
#include <algorithm>

#include "base/error.hpp"
#include "simulator/costs/plan_costs.hpp"

namespace penstock {

LinkCost link_during_step(const Profile& profile) {
  const LinkCost& idle = profile.links.front();
  const auto busy = std::ranges::find(profile.links, idle.kind + "-busy", &LinkCost::kind);
  if (busy == profile.links.end()) return idle;
  LinkCost link = *busy;
  if (link.bandwidth <= 0) link.bandwidth = idle.bandwidth;
  return link;
}

namespace {

/// `gloo-sum` or the like, or null.
const LinkCost* measured_sums(const Profile& profile) {
  const auto found = std::ranges::find_if(
      profile.links, [](const LinkCost& link) { return link.kind.ends_with("-sum"); });
  return found == profile.links.end() ? nullptr : &*found;
}

}  // namespace

Network plan_network(const Profile& profile, const Cluster* cluster) {
  if (cluster) return Network(*cluster);
  if (profile.links.empty()) {
    throw InputError(profile.path, "no link between ranks was measured",
                     "Profile with --ranks 2, or name a cluster whose link is described: --cluster "
                     "CLUSTER.yaml.");
  }
  const LinkCost measured = link_during_step(profile);
  // Gloo moves no byte before the receiver has posted, and NCCL's sends wait for their peer's
  // kernel. On one machine the receiver copies them itself when it waits for them.
  return Link{.latency_s = measured.latency_s,
              .bandwidth = measured.bandwidth,
              .sender_s_per_byte = measured.sender_s_per_byte,
              .receiver_s_per_byte = measured.receiver_s_per_byte,
              .mode = SendMode::posted,
              .receive_depth = measured.kind == "local" ? 0 : Link{}.receive_depth};
}

Link message_link(const Profile& profile) {
  if (profile.links.empty()) return {};
  return {.latency_s = profile.links.front().latency_s,
          .bandwidth = profile.links.front().bandwidth};
}

Link sum_link(const Profile& profile) {
  const LinkCost* measured = measured_sums(profile);
  if (measured == nullptr) return message_link(profile);
  // Measured between two ranks: two rounds, in which each sends all bytes once.
  return {.latency_s = measured->latency_s / 2, .bandwidth = measured->bandwidth};
}

bool has_reduce_scatter(const Profile& profile, const Cluster* cluster, bool one_machine) {
  if (profile.device.kind != "cpu") return true;
  if (!cluster) return profile.links.empty() || profile.links.front().kind != "gloo";
  if (!cluster->nodes.empty()) return one_machine;
  return cluster->link.receive_depth == 0;  // where a machine's ranks move messages themselves
}

bool sums_overlap(const Profile& profile, const Cluster* cluster) {
  return cluster != nullptr || profile.links.empty() || profile.links.front().kind != "local";
}

double sum_compute_s_per_byte(const Profile& profile) {
  const LinkCost* measured = measured_sums(profile);
  return measured == nullptr ? 0 : measured->sender_s_per_byte;
}

Link reduce_link(const Profile& profile, const Cluster* cluster) {
  if (cluster) return Network(*cluster).link();
  const Link message = message_link(profile), sum = sum_link(profile);
  const bool unlimited = message.bandwidth <= 0 || sum.bandwidth <= 0;
  return {.latency_s = std::min(message.latency_s, sum.latency_s),
          .bandwidth = unlimited ? 0 : std::max(message.bandwidth, sum.bandwidth)};
}

}  // namespace penstock
