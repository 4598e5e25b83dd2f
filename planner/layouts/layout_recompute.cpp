#include "planner/layouts/layout_recompute.hpp"

#include <algorithm>
#include <utility>

#include "planner/layouts/unit_fit.hpp"

namespace penstock {

namespace {

/// Seconds of each unit's forward that runs again.
std::vector<double> forwards_again_s(const PlanningInputs& inputs,
                                     const MicrobatchCosts& measured) {
  std::vector<double> seconds(inputs.units.size(), 0.0);
  for (size_t op = 0; op < inputs.model.operators.size(); ++op) {
    if (is_recomputed(inputs.model.operators[op], inputs.analysis)) continue;
    const auto behind =
        std::ranges::upper_bound(inputs.units, static_cast<OperatorId>(op), {}, &Unit::begin);
    seconds[static_cast<size_t>(behind - inputs.units.begin()) - 1] +=
        measured.operators[op].times.forward.mean_s;
  }
  return seconds;
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
    const std::vector<double> seconds = forwards_again_s(inputs, *layout.measured);
    const bool whole = context.chain.begins() == begins_of(inputs.units);
    const std::vector<UnitBytes>& freed = inputs.unit_bytes_at(*layout.measured);
    for (size_t unit = 0; unit < seconds.size(); ++unit) {
      const UnitBytes& of = freed[unit];
      units.push_back({{.seconds = seconds[unit],
                        .bytes = whole ? of.alone : of.in_part,
                        .at_once = whole ? of.at_once : 0}});
    }
  }
  for (LayerChoices& unit : units)
    for (LayerChoice& choice : unit) choice.seconds /= layout.speeds().fastest();
  return units;
}

RecomputeBound recompute_bound(const PipelineLayout& layout,
                               const std::vector<LayerChoices>& choices) {
  const double times = times_of_recompute(layout);
  std::vector<RecomputeBound::Unit> units;
  for (LayerChoices unit : choices) {
    for (LayerChoice& choice : unit) choice.bytes = choice.freed(1, 0);
    for (const LayerChoice& step : hull(std::move(unit)))
      units.push_back({times * step.seconds, static_cast<double>(step.bytes)});
  }
  return RecomputeBound(std::move(units));
}

std::vector<int64_t> kept_for_weight(const LayoutContext& context, const PipelineLayout& layout) {
  const PlanningInputs& inputs = context.inputs;
  std::vector<int64_t> bytes;
  if (!layout.measured->knows_split_backward()) return bytes;
  if (!inputs.model.layers) {
    if (context.chain.begins() != begins_of(inputs.units)) return bytes;
    for (const UnitBytes& unit : inputs.unit_bytes_at(*layout.measured))
      bytes.push_back(unit.for_weight);
    return bytes;
  }
  for (const OperatorCost& layer : layout.measured->operators)
    bytes.push_back(-layer.held.backward_weight.net - layer.held.output);
  return bytes;
}

}  // namespace penstock
