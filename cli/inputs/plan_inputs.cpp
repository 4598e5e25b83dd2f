#include "cli/inputs/plan_inputs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/inputs/costed_model.hpp"
#include "estimate/estimate.hpp"
#include "pipeline/program/schedule.hpp"
#include "simulator/adaptive/adaptive.hpp"
#include "simulator/costs/forward_costs.hpp"
#include "simulator/costs/group_profile.hpp"
#include "simulator/costs/memory_limit.hpp"
#include "simulator/costs/plan_costs.hpp"
#include "simulator/costs/replays.hpp"
#include "simulator/network/grouped.hpp"

namespace penstock::cli {

namespace {

/// A file is the one that the plan was made from, where the plan says which.
void check_file(const Plan& plan, const FileRef& file, const char* what, const char* cure) {
  const std::string actual = sha256_of_file(file.path);
  if (file.sha256.empty() || file.sha256 == actual) return;
  throw InputError(plan.path,
                   fmt::format("the plan was made from a {} with SHA-256 {}, but {} has {}", what,
                               file.sha256, file.path, actual),
                   cure);
}

/// Times and bytes of another precision, or with other gradients, say nothing of the plan's.
void check_trained(const Plan& plan, const Profile& profile) {
  const Job &planned = plan.job, &measured = profile.job;
  const bool frozen_differs = planned.optimizer.frozen != measured.optimizer.frozen;
  if (!frozen_differs && planned.precision == measured.precision) return;
  throw InputError(
      plan.path,
      fmt::format("the job's `{}` is not that of {}",
                  frozen_differs ? "optimizer.frozen" : "precision", plan.profile->path),
      "Profile the job again with `penstock profile`.");
}

Profile checked_profile(const Plan& plan) {
  if (!plan.profile) {
    throw InputError(plan.path, "the plan names no profile, so nothing is known of its costs",
                     "Measure the job with `penstock profile`, and add `profile: {path: …}`. "
                     "Without it a plan can be executed (unless its schedule is `adaptive`), not "
                     "simulated.");
  }
  check_file(plan, *plan.profile, plan.layers ? "table of layers" : "profile",
             "Plan again with `penstock plan`, or remove `sha256` to simulate with this one.");
  Profile profile = profile_of(plan);
  check_trained(plan, profile);
  return profile;
}

[[noreturn]] void refuse_devices(const Plan& plan, const std::string& problem) {
  throw InputError(plan.path, problem, "Plan again for this cluster, or correct `devices`.");
}

/// The devices of the plan's tensor groups, as ranks of the grouped cluster.
std::vector<int> groups_of_devices(const Plan& plan, const Cluster& whole) {
  const auto parts = static_cast<size_t>(plan.tensor_parallel);
  const auto groups = devices_of_groups(whole, static_cast<int>(parts));
  std::vector<int> used;
  for (size_t first = 0; first < plan.devices.size(); first += parts) {
    const std::vector<int> devices(
        plan.devices.begin() + static_cast<std::ptrdiff_t>(first),
        plan.devices.begin() + static_cast<std::ptrdiff_t>(first + parts));
    const auto found = std::ranges::find(groups, devices);
    if (found == groups.end())
      refuse_devices(plan,
                     fmt::format("the parts of a tensor group have devices {}, which are no {} "
                                 "neighbours of a node",
                                 fmt::join(devices, ", "), parts));
    used.push_back(static_cast<int>(found - groups.begin()));
  }
  return used;
}

void check_devices(const Plan& plan, const Cluster& cluster) {
  if (cluster.nodes.empty())
    refuse_devices(plan,
                   fmt::format("the plan names devices, but {} has equal ranks", cluster.path));
  const int last = *std::ranges::max_element(plan.devices);
  if (last >= cluster.ranks)
    refuse_devices(plan, fmt::format("the plan uses device {}, but {} has {}", last, cluster.path,
                                     cluster.ranks));
}

/// The cluster as the plan's ranks have it, or as its tensor groups have it.
Cluster for_ranks(const Plan& plan, const Cluster& whole) {
  const int parts = static_cast<int>(plan.tensor_parallel);
  Cluster cluster = parts > 1 ? grouped(whole, parts) : whole;
  if (!plan.devices.empty()) {
    check_devices(plan, whole);
    return on_devices(std::move(cluster),
                      parts > 1 ? groups_of_devices(plan, whole) : plan.devices);
  }
  if (plan.all_ranks() > cluster.ranks * parts) {
    throw InputError(plan.path,
                     fmt::format("the plan uses {} ranks, but {} has {}", plan.all_ranks(),
                                 cluster.path, cluster.ranks * parts),
                     "Plan again for fewer ranks, or give the cluster more.");
  }
  return cluster;
}

std::optional<Cluster> cluster_of(const Plan& plan, const Overrides& overrides) {
  if (!plan.cluster) {
    overrides.require_no_cluster_keys();
    return std::nullopt;
  }
  check_file(plan, *plan.cluster, "cluster",
             "Plan again with `penstock plan`, or remove `sha256` to simulate on this one.");
  Cluster cluster = read_cluster(plan.cluster->path);
  overrides.apply(cluster);
  return cluster;
}

MemoryLimit memory(const Plan& plan, const Profile& profile, const Cluster* cluster) {
  if (plan.memory_bytes > 0) return {.max_bytes = plan.memory_bytes};
  return device_memory(profile, cluster, plan.ranks(), plan.data_parallel, plan.tensor_parallel);
}

std::string costs_from(const Plan& plan, const Profile& profile) {
  if (plan.layers) return "a table of layers";
  const std::string note = estimate_note(profile);
  return note.empty() ? fmt::format("measured on {}", profile.device.name) : note;
}

}  // namespace

std::string describe(const Cluster& cluster) {
  const std::string file = std::filesystem::path(cluster.path).filename().string();
  if (cluster.nodes.empty()) return fmt::format("{}: {} ranks", file, cluster.ranks);
  std::string list;
  for (const NodeKind& kind : cluster.nodes) {
    list += fmt::format("{}{} node{} of {} {}", list.empty() ? "" : ", ", kind.count,
                        kind.count == 1 ? "" : "s", kind.devices,
                        kind.device.empty() ? "devices" : kind.device);
  }
  return fmt::format("{}: {}", file, list);
}

PlanInputs plan_inputs(const Plan& plan, const Graph& model, const Slicing& slicing,
                       CudaGraphs graphs, const Overrides& overrides) {
  Profile profile = with_replays(checked_profile(plan), graphs);
  if (plan.job.forward_only) profile = forward_costs(std::move(profile), model);
  overrides.apply(profile);
  const std::optional<Cluster> whole = cluster_of(plan, overrides);
  std::optional<Cluster> cluster;
  if (whole) cluster = for_ranks(plan, *whole);
  const Cluster* on = cluster ? &*cluster : nullptr;
  if (plan.tensor_parallel > 1)
    profile = group_profile(profile, group_costs(plan, profile), model, on);
  Costs costs = plan_costs(plan, model, slicing, profile, on);
  overrides.apply(costs);
  std::optional<StepNoise> noise = step_noise(profile, on, plan, slicing, costs);
  return {.costs = std::move(costs),
          .network = plan.ranks() > 1 ? plan_network(profile, on) : Network(),
          .memory = memory(plan, profile, on),
          .noise = std::move(noise),
          .cluster = whole ? describe(*whole) : "",
          .costs_from = costs_from(plan, profile)};
}

bool needs_adaptive(const Plan& plan) {
  return plan.schedule == adaptive_schedule && plan.program.empty() && !plan.generated;
}

Program adaptive_program(const Plan& plan, const Slicing& slicing, const PlanInputs& inputs) {
  return adaptive(
      adaptive_problem(plan, flows(slicing), inputs.costs, inputs.network, inputs.memory));
}

void make_adaptive(Plan& plan, const Graph& model, const Slicing& slicing, CudaGraphs graphs) {
  if (!needs_adaptive(plan)) return;
  plan.generated = adaptive_program(plan, slicing, plan_inputs(plan, model, slicing, graphs));
}

}  // namespace penstock::cli
