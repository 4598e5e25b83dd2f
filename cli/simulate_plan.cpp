// Studies of a plan: its program along the model's real data flow, its profile's costs.
#include <fmt/format.h>

#include <optional>

#include "cli/adaptive_plan.hpp"
#include "cli/simulate_study.hpp"
#include "graph/error.hpp"
#include "graph/file.hpp"
#include "graph/pt2.hpp"
#include "pipeline/plan.hpp"
#include "pipeline/quantity.hpp"
#include "simulator/plan_costs.hpp"

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

Profile profile_of(const Plan& plan) {
  if (!plan.profile) {
    throw InputError(plan.path, "the plan names no profile, so nothing is known of its costs",
                     "Measure the job with `penstock profile`, and add `profile: {path: …}`. "
                     "Without it a plan can be executed, not simulated.");
  }
  check_file(plan, *plan.profile, "profile",
             "Plan again with `penstock plan`, or remove `sha256` to simulate with this one.");
  return read_profile(plan.profile->path);
}

std::optional<Cluster> cluster_of(const Plan& plan) {
  if (!plan.cluster) return std::nullopt;
  check_file(plan, *plan.cluster, "cluster",
             "Plan again with `penstock plan`, or remove `sha256` to simulate on this one.");
  Cluster cluster = read_cluster(plan.cluster->path);
  if (plan.ranks() > cluster.ranks) {
    throw InputError(plan.path,
                     fmt::format("the plan uses {} ranks, but {} has {}", plan.ranks(),
                                 cluster.path, cluster.ranks),
                     "Plan again for fewer ranks, or give the cluster more.");
  }
  return cluster;
}

int64_t memory_limit(const SimulateOptions& options, const Profile& profile,
                     const std::optional<Cluster>& cluster) {
  if (!options.memory.empty()) return parse_bytes(options.memory, "--memory");
  return cluster && cluster->memory_bytes > 0 ? cluster->memory_bytes : profile.device.memory_bytes;
}

}  // namespace

Study plan_study(const SimulateOptions& options) {
  Plan plan = read_plan(options.plan);
  const Profile profile = profile_of(plan);
  const std::optional<Cluster> cluster = cluster_of(plan);
  const Graph model = read_pt2(plan.job.model);
  check_fingerprint(plan, model);
  const Slicing slicing = slice(plan, model, analyse(model));
  make_adaptive(plan, model, slicing,
                options.memory.empty() ? 0 : parse_bytes(options.memory, "--memory"));
  Study study;
  study.title = options.plan;
  study.program = lowered_program(plan, slicing);
  const Cluster* on = cluster ? &*cluster : nullptr;
  study.costs = plan_costs(plan, model, slicing, profile, on);
  if (plan.ranks() > 1) study.network = plan_network(profile, on);
  study.memory_bytes = memory_limit(options, profile, cluster);
  return study;
}

}  // namespace penstock::cli
