#include "cli/adaptive_plan.hpp"

#include <optional>

#include "pipeline/profile.hpp"
#include "pipeline/schedule.hpp"
#include "simulator/adaptive.hpp"
#include "simulator/plan_costs.hpp"

namespace penstock::cli {

void make_adaptive(Plan& plan, const Graph& model, const Slicing& slicing, int64_t memory_bytes) {
  if (plan.schedule != adaptive_schedule || !plan.program.empty()) return;
  if (!plan.profile) find_schedule(plan.schedule, plan.path);  // says that it needs one
  const Profile profile = read_profile(plan.profile->path);
  std::optional<Cluster> cluster;
  if (plan.cluster) cluster = read_cluster(plan.cluster->path);
  const Cluster* on = cluster ? &*cluster : nullptr;
  AdaptiveProblem problem{.ranks = plan.ranks(),
                          .microbatches = static_cast<int>(plan.microbatches),
                          .flows = flows(slicing),
                          .costs = plan_costs(plan, model, slicing, profile, on),
                          .network = plan_network(profile, on),
                          .memory_bytes = memory_bytes};
  for (const StagePlan& stage : plan.stages) problem.rank_of_stage.push_back(stage.rank);
  if (memory_bytes == 0) {
    const bool known = on != nullptr && on->memory_bytes > 0;
    problem.memory_bytes = known ? on->memory_bytes : profile.device.memory_bytes;
  }
  plan.made = adaptive(problem);
}

}  // namespace penstock::cli
