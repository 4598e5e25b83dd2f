#include "planner/layouts/layout_recompute.hpp"

#include <algorithm>
#include <memory>
#include <set>

#include "planner/layouts/layer_fit.hpp"
#include "planner/paths/rank_paths.hpp"
#include "planner/paths/shared_units.hpp"
#include "simulator/memory/value_lives.hpp"

namespace penstock {

namespace {

/// Each unit's forward that runs again, and the bytes of a microbatch that it frees at most: for a
/// view all memory that it lies in, in the unit that keeps it and in the one that makes it.
std::vector<LayerChoice> forwards_again(const PlanningInputs& inputs,
                                        const MicrobatchCosts& measured) {
  const ValueLives& lives = inputs.lives->of(inputs.model, measured);
  std::vector<LayerChoice> units(inputs.units.size());
  std::vector<std::set<ValueId>> kept(units.size());
  const auto unit_of = [&](OperatorId op) {
    const auto behind = std::ranges::upper_bound(inputs.units, op);
    return static_cast<size_t>(behind - inputs.units.begin()) - 1;
  };
  const auto keep = [&](size_t unit, ValueId root, int64_t bytes) {
    if (kept[unit].insert(root).second) units[unit].bytes += bytes;
  };
  for (OperatorId op = 0; op < static_cast<OperatorId>(inputs.model.operators.size()); ++op) {
    const size_t unit = unit_of(op);
    units[unit].bytes += std::max<int64_t>(lives.own_bytes(op), 0);
    for (const ValueId value : lives.kept_by(op)) {
      const ValueId root = lives.root(value);
      const int64_t bytes = std::max(lives.bytes(value), lives.bytes(root));
      keep(unit, root, bytes);
      if (root != value && lives.producer(root) >= 0)
        keep(unit_of(lives.producer(root)), root, bytes);
    }
    const auto at = static_cast<size_t>(op);
    if (is_recomputed(inputs.model.operators[at], inputs.analysis)) continue;
    units[unit].seconds += measured.operators[at].times.forward.mean_s;
  }
  return units;
}

/// How often a step recomputes what it recomputes of a microbatch.
double times_of_recompute(const PipelineLayout& layout) {
  return static_cast<double>(layout.microbatches) + layout.measured->first_microbatch_excess;
}

}  // namespace

std::vector<LayerChoices> recompute_choices(const LayoutContext& context,
                                            const PipelineLayout& layout) {
  const PlanningInputs& inputs = context.inputs;
  std::vector<LayerChoices> units;
  if (inputs.model.layers) {
    for (const OperatorCost& layer : layout.measured->operators)
      units.push_back(layer_choices(layer));
  } else {
    for (const LayerChoice& unit : forwards_again(inputs, *layout.measured))
      units.push_back({unit});
  }
  for (LayerChoices& unit : units)
    for (LayerChoice& choice : unit) choice.seconds /= layout.speeds().fastest();
  return units;
}

RecomputeBound recompute_bound(const PipelineLayout& layout,
                               const std::vector<LayerChoices>& choices) {
  const double times = times_of_recompute(layout);
  std::vector<RecomputeBound::Unit> units;
  for (const LayerChoices& unit : choices)
    for (const LayerChoice& step : hull(unit))
      units.push_back({times * step.seconds, static_cast<double>(step.bytes)});
  return RecomputeBound(std::move(units));
}

namespace {

/// The bytes that each layer keeps of a microbatch between I and W, whatever it recomputes; empty
/// where they are not known, as of models that are no layer tables.
std::vector<int64_t> kept_for_weight(const LayoutContext& context, const PipelineLayout& layout) {
  std::vector<int64_t> bytes;
  if (!context.inputs.model.layers || !layout.measured->knows_split_backward()) return bytes;
  for (const OperatorCost& layer : layout.measured->operators)
    bytes.push_back(-layer.held.backward_weight.net - layer.held.output);
  return bytes;
}

std::vector<int64_t> limits_of_ranks(const PipelineLayout& layout, const MemoryLimit& limit) {
  std::vector<int64_t> limits;
  for (int rank = 0; rank < layout.ranks; ++rank) limits.push_back(limit.of(rank));
  return limits;
}

/// Null where units are no layers.
std::shared_ptr<const SharedUnits> shared_units(const LayoutContext& context,
                                                const PipelineLayout& layout,
                                                const MemoryLimit& limit, const Program& compute,
                                                const ChainCosts& costs,
                                                const std::vector<HeldAtOnce>& moments) {
  if (!context.inputs.model.layers || context.chain.begins() != context.inputs.units)
    return nullptr;
  const Placement placement = penstock::placement(compute);
  const SplitTimes times(costs, placement, layout.speeds());
  const bool posts = posts_when_reached(context.inputs.network.link());
  const std::vector<std::vector<Times>> paths =
      compute.action_count() > most_actions_followed
          ? own_paths(times, compute.microbatches)
          : rank_paths(ProgramPaths(compute, times, posts));
  auto recompute = std::make_shared<const WholeRecompute>(
      context.bytes(layout), recompute_choices(context, layout), kept_for_weight(context, layout),
      placement, layout.speeds(), moments, limits_of_ranks(layout, limit));
  return std::make_shared<const SharedUnits>(times, paths, std::move(recompute),
                                             1 + layout.measured->first_microbatch_excess);
}

}  // namespace

double shared_units_s(const LayoutContext& context, const PipelineLayout& layout,
                      const MemoryLimit& limit, const ChainCosts& costs) {
  if (!limit.any() || !layout.schedule || !costs.all_linked()) return 0;
  const Program compute = layout.compute();
  const auto shared =
      shared_units(context, layout, limit, compute, costs, fullest_moments(compute));
  return shared ? shared->step_s() : 0;
}

ProgramPaths::Recompute paths_recompute(const LayoutContext& context, const PipelineLayout& layout,
                                        const MemoryLimit& limit, const Program& compute,
                                        const ChainCosts& costs) {
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
          shared_units(context, layout, limit, compute, costs, moments)};
}

}  // namespace penstock
