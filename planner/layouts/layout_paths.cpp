#include "planner/layouts/layout_paths.hpp"

#include <utility>

#include "planner/layouts/layout_recompute.hpp"
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
bool layers_recompute(const LayoutContext& context, const MemoryLimit& limit) {
  return limit.any() && may_recompute(context, limit) && context.inputs.model.layers &&
         context.chain.begins() == context.inputs.units;
}

ProgramPaths::Recompute paths_recompute(const LayoutContext& context, const PipelineLayout& layout,
                                        const MemoryLimit& limit, const Program& compute) {
  const std::vector<LayerChoices> units = recompute_choices(context, layout);
  const auto bytes = context.bytes(layout);
  const Placement placement = penstock::placement(compute);
  const std::vector<int64_t> limits = limits_of_ranks(layout, limit);
  const double first = 1 + layout.measured->first_microbatch_excess;
  const std::vector<HeldAtOnce> moments = fullest_moments(compute);
  const std::vector<int64_t> for_weight = kept_for_weight(context, layout);
  return {std::make_shared<SplitMemory>(*bytes, units, for_weight, placement, layout.speeds(),
                                        moments, limits, first),
          std::make_shared<SplitRecompute>(bytes, units, for_weight, context.inputs.model.layers,
                                           placement, layout.speeds(), moments, limits),
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
  const bool recomputes = layers_recompute(context, limit);
  const int64_t units = costs.units();
  if (!recomputes && layout.stages() * units * units > most_stage_pairs) return nullptr;
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

std::shared_ptr<const ProgramPaths> layout_paths(const LayoutContext& context,
                                                 const PipelineLayout& layout,
                                                 const MemoryLimit& limit, const SplitSpace& splits,
                                                 const std::vector<int>& begins,
                                                 std::shared_ptr<const SharedUnits> shared) {
  if (!layout.schedule || layout.branches) return nullptr;
  const bool recomputes = !keeps_all(splits, begins, limit);
  const bool by_units = context.chain.begins() == context.inputs.units;
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
