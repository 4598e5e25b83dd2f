#include "cli/predict/smaller_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "cli/inputs/costed_model.hpp"
#include "cli/inputs/survival.hpp"
#include "planner/plan.hpp"

namespace penstock::cli {

namespace {

constexpr const char* kShrink = "--shrink";

/// By process: launchers number them node by node, spares behind the ranks.
std::vector<int> devices_of_processes(const Plan& plan, const Cluster& cluster, int64_t spares) {
  std::vector<int> devices = plan.devices;
  if (devices.empty()) {
    devices.resize(static_cast<size_t>(plan.all_ranks()));
    std::iota(devices.begin(), devices.end(), 0);
  }
  std::ranges::sort(devices);
  const int next = devices.back() + 1;
  if (next + spares > cluster.ranks)
    throw InputError(kShrink,
                     fmt::format("{} has {} behind those of {}, too few for {}", cluster.path,
                                 format_number(cluster.ranks - next, "device"), plan.path,
                                 format_number(spares, "spare")),
                     "Add the nodes of the spares to the cluster file and plan again, or leave it "
                     "out.");
  for (int spare = 0; spare < spares; ++spare) devices.push_back(next + spare);
  return devices;
}

/// The devices of these processes, in their order; empty where the cluster has no nodes.
std::vector<int> devices_of(const std::set<int>& alive, const PlannedFrom& from) {
  std::vector<int> devices;
  if (from.devices.empty()) return devices;
  for (const int process : alive) devices.push_back(from.devices.at(static_cast<size_t>(process)));
  return devices;
}

/// Has a plan for some of the cluster's devices name them as the whole cluster does.
void name_devices(Plan& plan, const std::vector<int>& left) {
  if (left.empty()) return;
  if (plan.devices.empty()) {
    plan.devices.assign(left.begin(), left.begin() + plan.all_ranks());
  } else {
    for (int& device : plan.devices) device = left.at(static_cast<size_t>(device));
  }
}

}  // namespace

PlannedFrom planned_from(const Plan& plan, const std::string& survive, int64_t spares) {
  if (!plan.profile)
    throw InputError(kShrink,
                     plan.path + " names no profile, without which no other can be planned",
                     "Plan from a profile (penstock profile, penstock plan), or leave it out.");
  if (plan.sharding.random_by_part)
    throw InputError(kShrink, "with `random: by_part` fewer ranks draw other numbers",
                     "Leave it out of the plan's `sharding`, or leave out --shrink.");
  PlannedFrom from{.profile = profile_of(plan), .cluster = {}, .devices = {}};
  from.profile.job = plan.job;
  count_snapshots(survive, from.profile.device.kind, from.profile.job);
  if (!plan.cluster) return from;
  from.cluster = read_cluster(plan.cluster->path);
  if (!from.cluster->nodes.empty())
    from.devices = devices_of_processes(plan, *from.cluster, spares);
  return from;
}

Plan smaller_plan(const Plan& plan, const std::set<int>& alive, const PlannedFrom& from,
                  const Graph& model, const std::function<bool()>& stop) {
  Profile profile = from.profile;
  std::erase_if(profile.microbatches,
                [&](const MicrobatchCosts& costs) { return costs.microbatch != plan.microbatch; });
  PlanRequest request;
  request.ranks = static_cast<int>(alive.size());
  if (plan.memory_bytes > 0) request.memory_bytes = plan.memory_bytes;
  if (plan.tensor_parallel > 1) request.tensor_parallel.reset();
  request.optimizer_state.reset();
  if (plan.optimizer_state == OptimizerState::replicated)
    request.optimizer_state = OptimizerState::replicated;
  request.allow_batch_coupling = true;  // microbatches are what they were
  request.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  request.stop = stop;
  const std::vector<int> devices = devices_of(alive, from);
  std::optional<Cluster> cluster = from.cluster;
  if (!devices.empty()) cluster = with_only(*std::move(cluster), devices);
  Plan smaller = make_plan(profile, model, cluster ? &*cluster : nullptr, request).plan;
  name_devices(smaller, devices);
  smaller.job = plan.job;
  return smaller;
}

Assignment assign_on_devices(const Plan& smaller, const std::set<int>& alive,
                             const PlannedFrom& from) {
  const int ranks = static_cast<int>(smaller.all_ranks());
  if (from.devices.empty()) return assign_anew(ranks, alive);
  Assignment assignment;
  for (int rank = 0; rank < ranks; ++rank) {
    const int device = smaller.devices.at(static_cast<size_t>(rank));
    assignment[rank] = *std::ranges::find_if(alive, [&](int process) {
      return from.devices.at(static_cast<size_t>(process)) == device;
    });
  }
  return assignment;
}

}  // namespace penstock::cli
