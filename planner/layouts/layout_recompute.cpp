#include "planner/layouts/layout_recompute.hpp"

#include <algorithm>
#include <set>

#include "planner/layouts/unit_fit.hpp"
#include "simulator/memory/value_lives.hpp"

namespace penstock {

namespace {

/// Each unit's forward that runs again, and the bytes of a microbatch that it frees at most: for a
/// view all memory that it lies in, in the unit that keeps it and in the one that makes it.
std::vector<LayerChoice> forwards_again(const PlanningInputs& inputs,
                                        const MicrobatchCosts& measured) {
  const ValueLives& lives = inputs.lives_at(measured);
  std::vector<LayerChoice> units(inputs.units.size());
  std::vector<std::set<ValueId>> kept(units.size());
  const auto unit_of = [&](OperatorId op) {
    const auto behind = std::ranges::upper_bound(inputs.units, op, {}, &Unit::begin);
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

std::vector<int64_t> kept_for_weight(const LayoutContext& context, const PipelineLayout& layout) {
  std::vector<int64_t> bytes;
  if (!context.inputs.model.layers || !layout.measured->knows_split_backward()) return bytes;
  for (const OperatorCost& layer : layout.measured->operators)
    bytes.push_back(-layer.held.backward_weight.net - layer.held.output);
  return bytes;
}

}  // namespace penstock
