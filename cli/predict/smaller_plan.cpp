#include "cli/predict/smaller_plan.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "cli/inputs/costed_model.hpp"
#include "cli/inputs/survival.hpp"
#include "planner/plan.hpp"

namespace penstock::cli {

namespace {

constexpr const char* kShrink = "--shrink";

}  // namespace

PlannedFrom planned_from(const Plan& plan, const std::string& survive) {
  if (!plan.profile)
    throw InputError(kShrink,
                     plan.path + " names no profile, without which no other can be planned",
                     "Plan from a profile (penstock profile, penstock plan), or leave it out.");
  if (plan.sharding.random_by_part)
    throw InputError(kShrink, "with `random: by_part` fewer ranks draw other numbers",
                     "Leave it out of the plan's `sharding`, or leave out --shrink.");
  PlannedFrom from{profile_of(plan), {}};
  from.profile.job = plan.job;
  count_snapshots(survive, from.profile.device.kind, from.profile.job);
  if (!plan.cluster) return from;
  from.cluster = read_cluster(plan.cluster->path);
  if (!from.cluster->nodes.empty())
    throw InputError(kShrink,
                     plan.path + " is for the nodes of " + from.cluster->path +
                         ", and no plan is made for some of them",
                     "Plan without a cluster, or with one of `ranks` and `link`, or leave it out.");
  return from;
}

Plan smaller_plan(const Plan& plan, int ranks, const PlannedFrom& from, const Graph& model,
                  const std::function<bool()>& stop) {
  Profile profile = from.profile;
  std::erase_if(profile.microbatches,
                [&](const MicrobatchCosts& costs) { return costs.microbatch != plan.microbatch; });
  PlanRequest request;
  request.ranks = ranks;
  if (plan.memory_bytes > 0) request.memory_bytes = plan.memory_bytes;
  if (plan.tensor_parallel > 1) request.tensor_parallel.reset();
  request.optimizer_state.reset();
  if (plan.optimizer_state == OptimizerState::replicated)
    request.optimizer_state = OptimizerState::replicated;
  request.allow_batch_coupling = true;  // microbatches are what they were
  request.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  request.stop = stop;
  const Cluster* const cluster = from.cluster ? &*from.cluster : nullptr;
  Plan smaller = make_plan(profile, model, cluster, request).plan;
  smaller.job = plan.job;
  return smaller;
}

}  // namespace penstock::cli
