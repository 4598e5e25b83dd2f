#include "planner/layouts/unit_fit.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "graph/cuts/segments.hpp"
#include "pipeline/job/parameters.hpp"
#include "simulator/costs/recompute_costs.hpp"
#include "simulator/memory/stage_memory.hpp"

namespace penstock {

namespace {

/// The choice of a unit whose stage is recomputed at once.
constexpr int at_once = 1;

/// The forwards of units that run again.
std::vector<LayerChoices> each_forward_again(const PlanningInputs& inputs,
                                             const MicrobatchCosts& measured) {
  Slicing slicing = inputs.units_as_stages();
  const ValueLives& lives = inputs.lives_at(measured);
  const int64_t target = target_bytes(inputs.profile.job, inputs.model, measured.microbatch);
  std::vector<LayerChoices> choices;
  for (int unit = 0; unit < static_cast<int>(inputs.units.size()); ++unit) {
    const auto saved = [&] {
      return stage_memory(lives, measured, slicing, unit, target).saved_bytes;
    };
    const int64_t kept = saved();
    slicing.stages[static_cast<size_t>(unit)].recomputed = whole_stage(slicing, unit);
    const int64_t freed = std::max<int64_t>(0, kept - saved());
    const RecomputeCosts costs = recompute_costs(inputs.model, slicing, unit, measured);
    choices.push_back({{costs.forward_s, freed, freed}});
  }
  return choices;
}

}  // namespace

LayerChoices layer_choices(const OperatorCost& layer) {
  LayerChoices choices;
  for (const RecomputeChoice& choice : layer.recompute)
    choices.push_back({choice.time_s, choice.freed_bytes, choice.working_bytes});
  return choices;
}

std::vector<LayerChoices> unit_choices(const PlanningInputs& inputs,
                                       const MicrobatchCosts& measured) {
  if (!inputs.model.layers) return each_forward_again(inputs, measured);
  std::vector<LayerChoices> choices;
  for (const OperatorCost& layer : measured.operators) choices.push_back(layer_choices(layer));
  return choices;
}

UnitFit::UnitFit(const PlanningInputs& inputs, const MicrobatchCosts& measured,
                 const std::vector<LayerChoices>& choices, const Placement& placement,
                 const Slicing& slicing)
    : inputs_(inputs),
      measured_(measured),
      choices_(choices),
      ranks_(static_cast<size_t>(placement.ranks)) {
  const std::vector<std::vector<int>> of_stages = units_of_stages(slicing, inputs.units);
  for (size_t stage = 0; stage < of_stages.size(); ++stage) {
    begins_.push_back(units_.size());
    for (const int unit : of_stages[stage]) {
      ranks_[static_cast<size_t>(placement.rank_of_stage[stage])].push_back(units_.size());
      units_.push_back({unit, static_cast<int>(stage)});
    }
  }
  begins_.push_back(units_.size());
}

std::vector<LayerChoices> UnitFit::choices_of(int rank, int64_t working_bytes,
                                              const std::vector<double>& prices) const {
  std::vector<LayerChoices> of_units;
  for (const size_t i : of_rank(rank)) {
    LayerChoices& unit = of_units.emplace_back();
    const double price = prices.empty() ? 1 : prices[static_cast<size_t>(units_[i].stage)];
    for (const LayerChoice& one : choices(i))
      unit.push_back({price * one.seconds, one.working <= working_bytes ? one.bytes : 0});
  }
  return of_units;
}

std::vector<int> UnitFit::by_unit(int rank, const std::vector<int>& by_stage) const {
  std::vector<int> by_unit;
  for (const size_t i : of_rank(rank))
    by_unit.push_back(by_stage[static_cast<size_t>(units_[i].stage)]);
  return by_unit;
}

void UnitFit::choose(int rank, RecomputeWay way, std::vector<int>& chosen) const {
  for (const size_t i : of_rank(rank)) {
    const LayerChoices& own = choices(i);
    const auto most = std::ranges::max_element(
        own, {}, [](const LayerChoice& one) { return std::pair(one.bytes, -one.seconds); });
    const bool none = way == RecomputeWay::none || most == own.end() || most->bytes == 0;
    chosen[i] = none ? -1 : static_cast<int>(most - own.begin());
    if (way == RecomputeWay::at_once) chosen[i] = at_once;
  }
}

std::vector<int> UnitFit::all(RecomputeWay way) const {
  std::vector<int> chosen(units_.size(), -1);
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) choose(rank, way, chosen);
  return chosen;
}

std::vector<std::vector<size_t>> UnitFit::chosen(const std::vector<int>& of_units) const {
  std::vector<std::vector<size_t>> ranks;
  for (std::vector<size_t> units : ranks_) {
    std::erase_if(
        units, [&](size_t i) { return of_units[i] < 0 || of_units[i] >= std::ssize(choices(i)); });
    std::ranges::stable_sort(units, std::greater(), [&](size_t i) {
      return choices(i)[static_cast<size_t>(of_units[i])].seconds;
    });
    ranks.push_back(std::move(units));
  }
  return ranks;
}

std::vector<std::vector<size_t>> UnitFit::cheapest(const std::vector<int>& held) const {
  std::vector<std::vector<size_t>> ranks;
  for (std::vector<size_t> units : ranks_) {
    const auto for_all = [&](size_t i) {
      LayerChoice choice = choices(i).front();
      choice.bytes *= held[static_cast<size_t>(units_[i].stage)];
      return choice;
    };
    std::erase_if(units, [&](size_t i) { return for_all(i).bytes <= 0; });
    std::ranges::stable_sort(units, cheaper, for_all);
    ranks.push_back(std::move(units));
  }
  return ranks;
}

double UnitFit::seconds(int rank, const std::vector<int>& of_units) const {
  double sum = 0;
  for (const size_t i : of_rank(rank))
    if (of_units[i] >= 0) sum += choices(i).front().seconds;
  return sum;
}

Recompute UnitFit::layers_of(size_t begin, size_t end, const std::vector<int>& choices) const {
  Recompute recompute;
  for (size_t i = begin; i < end; ++i) {
    if (choices[i] < 0) continue;
    const OperatorCost& layer = measured_.operators[static_cast<size_t>(units_[i].unit)];
    const std::string& name = layer.recompute[static_cast<size_t>(choices[i])].name;
    recompute.layers[name].push_back(layer.name);
  }
  return recompute;
}

/// The first so many are counted, others named. All that a stage has of one unit is its whole.
Recompute UnitFit::units_of(size_t begin, size_t end, const std::vector<int>& choices) const {
  const auto keeps = [&](size_t i) { return choices[i] < 0; };
  if (choices[begin] == at_once || (begin + 1 == end && !keeps(begin))) return {.whole = true};
  size_t first_kept = begin;
  while (first_kept < end && !keeps(first_kept)) ++first_kept;
  std::vector<std::string> named;
  for (size_t i = begin; i < end; ++i)
    if (!keeps(i)) named.push_back(inputs_.units[static_cast<size_t>(units_[i].unit)].label);
  if (named.size() > first_kept - begin) return {.units = std::move(named)};
  return {.first_units = static_cast<int>(named.size())};
}

void UnitFit::note(const std::vector<int>& choices, Plan& plan) const {
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    plan.stages[stage].recompute = inputs_.model.layers
                                       ? layers_of(begins_[stage], begins_[stage + 1], choices)
                                       : units_of(begins_[stage], begins_[stage + 1], choices);
}

std::optional<int64_t> UnitFit::less_working(int rank, int64_t working_bytes) const {
  std::optional<int64_t> largest;
  for (const size_t i : ranks_[static_cast<size_t>(rank)]) {
    for (const LayerChoice& one : choices(i))
      if (one.working < working_bytes) largest = std::max(largest.value_or(0), one.working);
  }
  return largest;
}

}  // namespace penstock
