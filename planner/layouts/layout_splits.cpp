#include "planner/layouts/layout_splits.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/layouts/layout_recompute.hpp"
#include "planner/layouts/order_space.hpp"
#include "planner/splits/chain_space.hpp"
#include "planner/splits/downset_space.hpp"
#include "planner/splits/launch_space.hpp"
#include "planner/splits/placed_space.hpp"

namespace penstock {

namespace {

/// Steps of a dynamic programme over ranks and pairs of units, beyond which the sharper bounds cost
/// more than they save.
constexpr int64_t max_chain_steps = 400'000;

/// As on a device of that speed.
void scale_by_speed(ChainCosts& costs, double speed) {
  for (std::vector<double> ChainCosts::*times :
       {&ChainCosts::forward_s, &ChainCosts::backward_s, &ChainCosts::weight_s,
        &ChainCosts::whole_s, &ChainCosts::parts_s, &ChainCosts::first_forward_s,
        &ChainCosts::first_backward_s, &ChainCosts::optimizer_s}) {
    for (double& time_s : costs.*times) time_s /= speed;
  }
  for (double ChainCosts::*time_s :
       {&ChainCosts::action_s, &ChainCosts::first_action_s, &ChainCosts::weight_action_s}) {
    costs.*time_s /= speed;
  }
}

}  // namespace

ModelChain::Backward backward_of(const PipelineLayout& layout, const Program& compute) {
  if (!layout.schedule) return ModelChain::Backward::either;
  if (!layout.schedule->split_backward) return ModelChain::Backward::whole;
  bool whole = false;
  for (const std::vector<Action>& actions : compute.ranks) {
    for (const Action& action : actions) {
      for_each_part(action, [&](const Action& part) { whole |= part.kind == Kind::backward; });
    }
  }
  return whole ? ModelChain::Backward::either : ModelChain::Backward::split;
}

SharingWays LayoutContext::ways_of(const PipelineLayout& layout) const {
  SharingWays of = ways;
  if (sharded) of.state_parts = layout.data_parallel;
  return of;
}

std::shared_ptr<const StageTable> LayoutContext::bytes(const PipelineLayout& layout) const {
  return tables->of(*layout.measured, ways_of(layout).state_parts);
}

ChainCosts layout_costs(const LayoutContext& context, const PipelineLayout& layout,
                        ModelChain::Backward backward) {
  const PlanningInputs& inputs = context.inputs;
  if (!layout.measured->knows_split_backward()) backward = ModelChain::Backward::whole;
  const ModelChain& units = layout.branches ? context.branches->units() : context.chain;
  ChainCosts costs =
      units.costs(inputs.profile, *layout.measured, context.link, context.reduce_link,
                  layout.stages(), backward, context.ways_of(layout));
  scale_by_speed(costs, layout.speeds().fastest());
  if (layout.stages_per_rank > 1) costs.reduce_s = 0;  // one rank may hold all that share
  const GradientSums sums = inputs.cluster ? inputs.cluster->all_reduce.sums : GradientSums{};
  if (layout.data_parallel == 1 || sums.overlap || context.reduce_link.bandwidth <= 0) return costs;
  // Every rank sends and receives so much of what it sums, whatever the algorithm.
  const auto replicas = static_cast<double>(layout.data_parallel);
  const SharingWays ways = context.ways_of(layout);
  const double halves = ways.state_parts > 1 ? 1 : 2;
  const double share = halves * (replicas - 1) / replicas / context.reduce_link.bandwidth;
  for (const int64_t bytes : units.gradient_bytes(inputs.profile.job, ways)) {
    costs.unit_reduce_s.push_back(share * static_cast<double>(bytes));
  }
  return costs;
}

bool is_whole_chain(const PipelineLayout& layout, const ChainCosts& costs,
                    const MemoryLimit& limit) {
  const int64_t units = costs.units();
  return layout.schedule && layout.stages_per_rank == 1 && costs.weight_s.empty() &&
         costs.unit_reduce_s.empty() && layout.speeds().equal() && limit.reserved_bytes.empty() &&
         layout.ranks * units * units <= max_chain_steps;
}

bool may_recompute(const LayoutContext& context, const MemoryLimit& limit) {
  if (context.inputs.profile.job.forward_only) return false;
  return context.min_memory || limit.any();
}

namespace {

/// Microbatches that each rank keeps between its F and B; empty where these do not alternate.
std::vector<int> in_flight(const LayoutContext& context, const PipelineLayout& layout) {
  std::vector<int> held;
  if (!layout.schedule->alternates || context.inputs.profile.job.forward_only) return held;
  for (int rank = 0; rank < layout.ranks; ++rank) {
    held.push_back(layout.schedule->held(layout.shape(), rank));
  }
  return held;
}

/// As if hosts were never behind.
std::unique_ptr<const SplitSpace> device_splits(const LayoutContext& context,
                                                const PipelineLayout& layout,
                                                const Placement& placement,
                                                const MemoryLimit& limit, ChainCosts costs,
                                                SplitNeeds least) {
  if (layout.branches)
    return std::make_unique<DownsetSpace>(costs, context.branches, placement, layout.speeds());
  const auto bytes = context.bytes(layout);
  if (is_whole_chain(layout, costs, limit)) {
    const std::vector<int> held = in_flight(context, layout);
    std::shared_ptr<const StageRecompute> recompute;
    if (limit.any() && context.chain.begins() == begins_of(context.inputs.units))
      recompute = std::make_shared<StageRecompute>(
          recompute_choices(context, layout), bytes, limit.max_bytes,
          std::min(1.0, 1 + layout.measured->first_microbatch_excess));
    return std::make_unique<ChainSpace>(
        ChainBound(std::move(costs), layout.ranks, static_cast<int>(layout.microbatches), held,
                   std::move(recompute)),
        ChainMemory(bytes, layout.ranks, held, may_recompute(context, limit)), least);
  }
  std::optional<PlacedSpace::Recompute> recompute;
  if (may_recompute(context, limit))
    recompute = {limit.max_bytes, recompute_bound(layout, recompute_choices(context, layout))};
  return std::make_unique<PlacedSpace>(std::move(costs), bytes, placement, layout.speeds(),
                                       limit.reserved_bytes, std::move(recompute), least);
}

/// For `adaptive`, with what is known of any order of actions.
std::unique_ptr<const SplitSpace> order_splits(const LayoutContext& context,
                                               const PipelineLayout& layout,
                                               const Placement& placement, const MemoryLimit& limit,
                                               ChainCosts costs, SplitNeeds least) {
  if (layout.schedule || layout.branches || !costs.all_linked())
    return device_splits(context, layout, placement, limit, std::move(costs), least);
  auto prefixes = device_splits(context, layout, placement, limit, costs, least);
  return std::make_unique<OrderSpace>(std::move(prefixes), std::move(costs), placement,
                                      layout.speeds());
}

bool has_hosts(const ChainCosts& costs) {
  return costs.host_actions_s > 0 ||
         std::ranges::any_of(costs.host_s, [](double host_s) { return host_s > 0; });
}

}  // namespace

bool keeps_all(const SplitSpace& splits, const std::vector<int>& begins, const MemoryLimit& limit) {
  SplitSpace::Prefix known;
  for (size_t stage = 0; stage < begins.size(); ++stage) {
    const int end = stage + 1 < begins.size() ? begins[stage + 1] : splits.units();
    known = splits.extend(known, begins[stage], end, static_cast<int>(begins.size() - stage));
  }
  return std::ranges::all_of(known.ranks, [&](const SplitSpace::RankLoad& rank) {
    return !limit.any() || rank.kept_bytes <= limit.max_bytes;
  });
}

std::unique_ptr<const SplitSpace> layout_splits(const LayoutContext& context,
                                                const PipelineLayout& layout,
                                                const Placement& placement,
                                                const MemoryLimit& limit, ChainCosts costs,
                                                SplitNeeds least) {
  if (!has_hosts(costs))
    return order_splits(context, layout, placement, limit, std::move(costs), least);
  WorkSums hosts(costs, placement.microbatches,
                 layout.branches ? context.branches->grown() : WorkSums::prefixes(costs.units()));
  return std::make_unique<LaunchSpace>(
      order_splits(context, layout, placement, limit, std::move(costs), least), std::move(hosts),
      placement);
}

}  // namespace penstock
