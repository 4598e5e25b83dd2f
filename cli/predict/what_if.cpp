#include "cli/predict/what_if.hpp"

#include <fmt/format.h>

#include <optional>

namespace penstock::cli {

namespace {

constexpr int64_t more_bytes = 1'000'000'000;

Profile with_faster_links(Profile profile) {
  for (LinkCost& link : profile.links) link.bandwidth *= 2;
  return profile;
}

Cluster with_faster_links(Cluster cluster) {
  cluster.link.bandwidth *= 2;
  cluster.between.switch_bandwidth *= 2;
  for (NodeKind& node : cluster.nodes) {
    for (double NodeKind::*bandwidth :
         {&NodeKind::bandwidth, &NodeKind::bus_bandwidth, &NodeKind::card_bandwidth}) {
      node.*bandwidth *= 2;
    }
  }
  return cluster;
}

WhatIf result(std::string change, const Planned& planned) {
  const Plan& plan = planned.plan;
  return {std::move(change), plan.prediction->step_s,
          fmt::format("{}, {} rank{} x {} replica{}", plan.schedule, plan.ranks(),
                      plan.ranks() == 1 ? "" : "s", plan.data_parallel,
                      plan.data_parallel == 1 ? "" : "s")};
}

}  // namespace

std::vector<WhatIf> what_if(const Planned& planned, const Profile& profile, const Graph& model,
                            const Cluster* cluster, const PlanRequest& request,
                            const Progress& progress) {
  std::vector<WhatIf> results;
  PlanRequest quiet = request;
  quiet.alternatives = 0;
  if (planned.memory.any()) {
    PlanRequest larger = quiet;
    larger.more_memory_bytes = more_bytes;
    results.push_back(
        result("1 GB more memory per rank", make_plan(profile, model, cluster, larger, progress)));
  }
  std::optional<Cluster> faster;
  if (cluster) faster = with_faster_links(*cluster);
  results.push_back(
      result("links of twice the bandwidth",
             make_plan(with_faster_links(profile), model, faster ? &*faster : nullptr, quiet,
                       progress)));
  return results;
}

}  // namespace penstock::cli
