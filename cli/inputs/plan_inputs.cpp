#include "cli/inputs/plan_inputs.hpp"

#include <fmt/format.h>

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
#include "simulator/costs/memory_limit.hpp"
#include "simulator/costs/plan_costs.hpp"
#include "simulator/costs/replays.hpp"

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

/// The ranks of all replicas.
int64_t all_ranks(const Plan& plan) { return plan.ranks() * plan.data_parallel; }

Cluster on_devices(const Plan& plan, Cluster cluster) {
  const int last = *std::ranges::max_element(plan.devices);
  if (cluster.nodes.empty() || last >= cluster.ranks) {
    throw InputError(
        plan.path,
        cluster.nodes.empty()
            ? fmt::format("the plan names devices, but {} has equal ranks", cluster.path)
            : fmt::format("the plan uses device {}, but {} has {}", last, cluster.path,
                          cluster.ranks),
        "Plan again for this cluster, or correct `devices`.");
  }
  return penstock::on_devices(std::move(cluster), plan.devices);
}

std::optional<Cluster> cluster_of(const Plan& plan) {
  if (!plan.cluster) return std::nullopt;
  check_file(plan, *plan.cluster, "cluster",
             "Plan again with `penstock plan`, or remove `sha256` to simulate on this one.");
  Cluster cluster = read_cluster(plan.cluster->path);
  if (!plan.devices.empty()) return on_devices(plan, std::move(cluster));
  if (all_ranks(plan) > cluster.ranks) {
    throw InputError(plan.path,
                     fmt::format("the plan uses {} ranks, but {} has {}", all_ranks(plan),
                                 cluster.path, cluster.ranks),
                     "Plan again for fewer ranks, or give the cluster more.");
  }
  return cluster;
}

MemoryLimit memory(const Plan& plan, const Profile& profile, const Cluster* cluster) {
  if (plan.memory_bytes > 0) return {.max_bytes = plan.memory_bytes};
  return device_memory(profile, cluster, plan.ranks(), plan.data_parallel);
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
  if (plan.tensor_parallel > 1)
    throw InputError(plan.path, "the costs of parts of operators (tensor_parallel) are not known",
                     "Such a plan can be executed and shown, not simulated yet.");
  Profile profile = with_replays(checked_profile(plan), graphs);
  if (plan.job.forward_only) profile = forward_costs(std::move(profile), model);
  overrides.apply(profile);
  std::optional<Cluster> cluster = cluster_of(plan);
  if (cluster) {
    overrides.apply(*cluster);
  } else {
    overrides.require_no_cluster_keys();
  }
  const Cluster* on = cluster ? &*cluster : nullptr;
  Costs costs = plan_costs(plan, model, slicing, profile, on);
  overrides.apply(costs);
  std::optional<StepNoise> noise = step_noise(profile, on, plan.microbatch, slicing, costs);
  return {.costs = std::move(costs),
          .network = plan.ranks() > 1 ? plan_network(profile, on) : Network(),
          .memory = memory(plan, profile, on),
          .noise = std::move(noise),
          .cluster = on ? describe(*on) : "",
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
