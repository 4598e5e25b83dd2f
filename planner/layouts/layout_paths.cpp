#include "planner/layouts/layout_paths.hpp"

#include <algorithm>
#include <utility>

#include "planner/layouts/layout_recompute.hpp"
#include "planner/paths/least_split.hpp"
#include "planner/paths/rank_paths.hpp"

namespace penstock {

namespace {

/// Stages x pairs of units, for each of which it is found what they take: with more that costs more
/// than it saves, unless layers recompute.
constexpr int64_t most_stage_pairs = 1'000'000;

std::vector<int64_t> limits_of_ranks(const PipelineLayout& layout, const MemoryLimit& limit) {
  std::vector<int64_t> limits;
  for (int rank = 0; rank < layout.ranks; ++rank) limits.push_back(limit.of(rank));
  return limits;
}

/// Is it known what units recompute under that limit?
bool units_recompute(const LayoutContext& context, const MemoryLimit& limit) {
  return limit.any() && may_recompute(context, limit) &&
         context.chain.begins() == begins_of(context.inputs.units);
}

/// The program of `adaptive` is not known: for it, the moment when a microbatch turns round.
std::vector<HeldAtOnce> moments_of(const PipelineLayout& layout, const Program& compute) {
  if (layout.schedule) return fullest_moments(compute);
  std::vector<HeldAtOnce> moments;
  const std::vector<int> none(compute.rank_of_stage.size(), 0);
  for (int rank = 0; rank < layout.ranks; ++rank) moments.push_back({rank, none, none, none});
  for (size_t stage = 0; stage < compute.rank_of_stage.size(); ++stage)
    moments[static_cast<size_t>(compute.rank_of_stage[stage])].held[stage] = 1;
  return moments;
}

std::shared_ptr<const SplitMemory> split_memory(const LayoutContext& context,
                                                const PipelineLayout& layout,
                                                const MemoryLimit& limit, const Program& compute) {
  return std::make_shared<SplitMemory>(
      *context.bytes(layout), recompute_choices(context, layout), kept_for_weight(context, layout),
      placement(compute), layout.speeds(), moments_of(layout, compute),
      limits_of_ranks(layout, limit), 1 + layout.measured->first_microbatch_excess);
}

ProgramPaths::Recompute paths_recompute(const LayoutContext& context, const PipelineLayout& layout,
                                        const MemoryLimit& limit, const Program& compute) {
  return {split_memory(context, layout, limit, compute),
          std::make_shared<SplitRecompute>(
              context.bytes(layout), recompute_choices(context, layout),
              kept_for_weight(context, layout), placement(compute), layout.speeds(),
              fullest_moments(compute), limits_of_ranks(layout, limit)),
          nullptr};
}

}  // namespace

std::shared_ptr<const SharedUnits> shared_units(const LayoutContext& context,
                                                const PipelineLayout& layout,
                                                const MemoryLimit& limit, const Program& compute,
                                                const ChainCosts& costs) {
  if (!layout.schedule || layout.branches || !costs.all_linked() ||
      is_whole_chain(layout, costs, limit))
    return nullptr;
  const bool recomputes = units_recompute(context, limit);
  const int64_t units = costs.units();
  if (!(recomputes && context.inputs.model.layers) &&
      layout.stages() * units * units > most_stage_pairs)
    return nullptr;
  const Placement placement = penstock::placement(compute);
  const SplitTimes times(costs, placement, layout.speeds());
  const bool posts = posts_when_reached(context.inputs.network.link());
  const std::vector<std::vector<Times>> paths =
      compute.action_count() > most_actions_followed
          ? own_paths(times, compute.microbatches)
          : rank_paths(ProgramPaths(compute, times, posts));
  std::shared_ptr<const WholeRecompute> recompute;
  if (recomputes)
    recompute = std::make_shared<const WholeRecompute>(
        context.bytes(layout), recompute_choices(context, layout), kept_for_weight(context, layout),
        placement, layout.speeds(), fullest_moments(compute), limits_of_ranks(layout, limit));
  else
    recompute = std::make_shared<const WholeRecompute>(placement, layout.speeds());
  return std::make_shared<const SharedUnits>(times, paths, std::move(recompute),
                                             1 + layout.measured->first_microbatch_excess);
}

SplitNeeds layout_needs(const LayoutContext& context, const PipelineLayout& layout,
                        const MemoryLimit& limit, const Program& compute, const ChainCosts& costs,
                        const SharedUnits* shared) {
  SplitNeeds needs{.seconds = shared ? shared->step_s() : 0, .bytes = 0};
  if (!units_recompute(context, limit) || layout.branches || !costs.all_linked()) return needs;
  const SplitTimes times(costs, placement(compute), layout.speeds());
  const std::vector<std::vector<Times>> alone =
      shared ? std::vector<std::vector<Times>>()
             : own_paths(times, static_cast<int>(layout.microbatches));
  Times mean(times.size(), 0.0);
  for (size_t rank = 0; rank < static_cast<size_t>(layout.ranks); ++rank) {
    const Times& path = shared ? shared->path(rank) : alone[rank].front();
    const double share = layout.speeds().relative()[rank] / layout.speeds().together();
    for (size_t time = 0; time < mean.size(); ++time) mean[time] += share * path[time];
  }
  const SplitNeeds priced =
      needs_of_all(times, *split_memory(context, layout, limit, compute), mean);
  needs.seconds = std::max(needs.seconds, priced.seconds);
  needs.bytes = priced.bytes;
  return needs;
}

std::shared_ptr<const ProgramPaths> layout_paths(const LayoutContext& context,
                                                 const PipelineLayout& layout,
                                                 const MemoryLimit& limit, const SplitSpace& splits,
                                                 const std::vector<int>& begins,
                                                 std::shared_ptr<const SharedUnits> shared) {
  if (!layout.schedule || layout.branches) return nullptr;
  const bool recomputes = !keeps_all(splits, begins, limit);
  const bool by_units = context.chain.begins() == begins_of(context.inputs.units);
  if (recomputes && !(may_recompute(context, limit) && by_units)) return nullptr;
  const Program compute = layout.compute();
  if (compute.action_count() > most_actions_followed) return nullptr;
  const ChainCosts costs = layout_costs(context, layout, backward_of(layout, compute));
  if (!costs.all_linked() || is_whole_chain(layout, costs, limit)) return nullptr;
  ProgramPaths::Recompute recompute;
  if (recomputes) recompute = paths_recompute(context, layout, limit, compute);
  recompute.shared = std::move(shared);
  return std::make_shared<const ProgramPaths>(
      compute, SplitTimes(costs, placement(compute), layout.speeds()),
      posts_when_reached(context.inputs.network.link()), std::move(recompute));
}

}  // namespace penstock
