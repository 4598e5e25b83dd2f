#include "cli/predict/what_if.hpp"

#include <fmt/format.h>

#include <optional>

#include "base/error.hpp"
#include "base/quantity.hpp"

namespace penstock::cli {

namespace {

constexpr int64_t more_bytes = 1'000'000'000;

/// Each relaxation has so much of the effort of the search for the plan.
constexpr int64_t relaxed_part = 2;

/// 0 is no limit, so that it makes links free.
void scale_bandwidth(double times, Profile& profile) {
  for (LinkCost& link : profile.links) link.bandwidth *= times;
}

void scale_bandwidth(double times, Cluster& cluster) {
  cluster.link.bandwidth *= times;
  cluster.between.switch_bandwidth *= times;
  for (NodeKind& node : cluster.nodes) {
    for (double NodeKind::*bandwidth :
         {&NodeKind::bandwidth, &NodeKind::bus_bandwidth, &NodeKind::card_bandwidth}) {
      node.*bandwidth *= times;
    }
  }
}

void free_latency(Profile& profile) {
  for (LinkCost& link : profile.links) {
    link.latency_s = link.sender_s_per_byte = link.receiver_s_per_byte = 0;
    link.samples.clear();
  }
}

void free_latency(Cluster& cluster) {
  cluster.between.latency_s = cluster.between.propagation_s = 0;
  cluster.link = {.mode = cluster.link.mode, .receive_depth = cluster.link.receive_depth};
  for (NodeKind& node : cluster.nodes) node.latency_s = 0;
}

WhatIf result(const char* change, const Planned& planned) {
  const Plan& plan = planned.plan;
  return {
      change, plan.prediction->step_s,
      fmt::format("{}, {}{} x {}", plan.schedule, format_number(plan.ranks(), "rank"),
                  plan.tensor_parallel > 1 ? fmt::format(" of {} parts", plan.tensor_parallel) : "",
                  format_number(plan.data_parallel, "replica"))};
}

/// The faster of the known plan, which the change allows, too, and the one that `make` finds, if it
/// finds any that fits.
template <typename Make>
WhatIf changed(const char* change, const Planned& planned, const Make& make) {
  try {
    const Planned other = make();
    const bool faster = other.plan.prediction->step_s < planned.plan.prediction->step_s;
    return result(change, faster ? other : planned);
  } catch (const InputError&) {
    return result(change, planned);
  }
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
    results.push_back(changed("1 GB more memory per rank", planned, [&] {
      return make_plan(profile, model, cluster, larger, progress, &planned);
    }));
  }
  Profile faster = profile;
  std::optional<Cluster> faster_cluster;
  if (cluster) scale_bandwidth(2, faster_cluster.emplace(*cluster));
  scale_bandwidth(2, faster);
  results.push_back(changed("links of twice the bandwidth", planned, [&] {
    return make_plan(faster, model, faster_cluster ? &*faster_cluster : nullptr, quiet, progress,
                     &planned);
  }));
  return results;
}

std::vector<WhatIf> relaxed(const Planned& planned, const Profile& profile, const Graph& model,
                            const Cluster* cluster, const PlanRequest& request,
                            const Progress& progress) {
  std::vector<WhatIf> results;
  if (planned.complete || planned.stopped) return results;
  if (planned.plan.prediction->step_s <= (1 + large_gap) * planned.proven_s()) return results;
  const double near_s = (1 + large_gap) * planned.lower_bound_s;
  PlanRequest without = request;
  without.alternatives = 0;
  without.tolerance = 0;
  without.effort /= relaxed_part;
  without.memory_bytes = INT64_MAX;
  if (planned.memory.any()) {
    results.push_back(changed("without the memory limit", planned, [&] {
      return make_plan(profile, model, cluster, without, progress, &planned);
    }));
    if (results.back().step_s <= near_s) return results;
  }
  if (!cluster && of_layers(profile)) return results;  // its links are free
  Profile free = profile;
  std::optional<Cluster> free_cluster;
  if (cluster) {
    free_latency(free_cluster.emplace(*cluster));
    scale_bandwidth(0, *free_cluster);
  }
  free_latency(free);
  scale_bandwidth(0, free);
  const char* links = results.empty() ? "with free links" : "with free links as well";
  results.push_back(changed(links, planned, [&] {
    return make_plan(free, model, free_cluster ? &*free_cluster : nullptr, without, progress,
                     &planned);
  }));
  return results;
}

}  // namespace penstock::cli
