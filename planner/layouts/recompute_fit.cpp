#include "planner/layouts/recompute_fit.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "planner/bounds/growing_choices.hpp"

namespace penstock {

UnitFit RecomputeFit::units(const Slicing& slicing) const {
  const MicrobatchCosts& measured = *layout_.measured;
  const std::vector<LayerChoices>& choices =
      inputs_.choices->of(measured.microbatch, [&] { return unit_choices(inputs_, measured); });
  return {inputs_, measured, choices, placement_, slicing};
}

std::vector<std::vector<int>> RecomputeFit::intervals(const Slicing& slicing) const {
  std::vector<std::vector<int>> ranks(static_cast<size_t>(layout_.ranks));
  for (size_t stage = 0; stage < slicing.stages.size(); ++stage) {
    std::vector<int>& rank = ranks[static_cast<size_t>(placement_.rank_of_stage[stage])];
    const std::vector<OperatorId>& layers = slicing.stages[stage].operators;
    rank.insert(rank.end(), {layers.front(), layers.back()});
  }
  return ranks;
}

/// A rank that frees more and more. Layers of a table that free what they can begin again without
/// the choices that take most meanwhile, other stages are then recomputed at once.
class RecomputeFit::Rank {
 public:
  /// All of it outlives this.
  Rank(const UnitFit& of, int rank, const std::vector<double>& prices, bool of_layers)
      : of_(of), rank_(rank), prices_(prices), of_layers_(of_layers), growing_(allowed()) {}

  /// False: it has nothing left to try. `held`: microbatches of each stage.
  bool free_more(const std::vector<int>& held, int64_t bytes, KnownChoices& known) {
    const std::vector<int> of_units = of_.by_unit(rank_, held);
    if (at_once_) return false;
    if (growing_.free_more(of_units, bytes, known)) return true;
    if (!of_layers_) return at_once_ = true;
    const std::optional<int64_t> less = of_.less_working(rank_, working_bytes_);
    if (!less) return false;
    working_bytes_ = *less;
    growing_ = GrowingChoices(allowed());
    return growing_.free_more(of_units, 1, known);
  }

  /// As if it could never free enough.
  void free_most(KnownChoices& known) {
    const std::vector<int> one(of_.of_rank(rank_).size(), 1);
    growing_.free_more(one, INT64_MAX, known);
  }

  /// Sets those of its units.
  void choose(std::vector<int>& choices) const {
    if (at_once_) return of_.choose(rank_, RecomputeWay::at_once, choices);
    const std::vector<size_t>& units = of_.of_rank(rank_);
    for (size_t i = 0; i < units.size(); ++i) choices[units[i]] = growing_.choices()[i];
  }

 private:
  std::vector<LayerChoices> allowed() const {
    return of_.choices_of(rank_, working_bytes_, prices_);
  }

  const UnitFit& of_;
  const int rank_;
  const std::vector<double>& prices_;
  const bool of_layers_;
  int64_t working_bytes_ = INT64_MAX;
  bool at_once_ = false;
  GrowingChoices growing_;
};

/// Sets what a rank of the same layers chose before, and says what it then held.
std::optional<RankMemory> RecomputeFit::recalled(const UnitFit& of, int rank,
                                                 const std::vector<std::vector<int>>& layers,
                                                 std::vector<int>& choices) {
  fitted_.resize(layers.size());
  const auto r = static_cast<size_t>(rank);
  const auto known = fitted_[r].find(layers[r]);
  if (known == fitted_[r].end()) return std::nullopt;
  const std::vector<size_t>& units = of.of_rank(rank);
  for (size_t i = 0; i < units.size(); ++i) choices[units[i]] = known->second.choices[i];
  return known->second.memory;
}

void RecomputeFit::remember(const UnitFit& of, const std::vector<std::vector<int>>& layers,
                            const Fitted& fitted) {
  for (size_t rank = 0; rank < layers.size(); ++rank) {
    std::vector<int> own;
    for (const size_t unit : of.of_rank(static_cast<int>(rank)))
      own.push_back(fitted.choices[unit]);
    fitted_[rank].try_emplace(layers[rank], FittedRank{std::move(own), fitted.memory[rank]});
  }
}

RecomputeFit::Fitted RecomputeFit::noted(const UnitFit& of, const std::vector<int>& choices,
                                         Plan& plan, Slicing& slicing,
                                         std::vector<std::optional<RankMemory>> settled) {
  of.note(choices, plan);
  Fitted fitted{evaluator_.costs(plan, slicing), {}, choices};
  fitted.memory = evaluator_.memory(plan, slicing, fitted.costs, std::move(settled));
  return fitted;
}

/// A rank does not quite hold less by what its choices free: recomputing takes memory meanwhile,
/// and it may then hold most at another moment. So it frees more until it fits, or has tried all.
/// Ranks of the same layers of a table do as before.
RecomputeFit::Fitted RecomputeFit::fit(Plan& plan, Slicing& slicing,
                                       const std::vector<double>& prices) {
  const UnitFit of = units(slicing);
  if (min_memory_ && !of_layers()) return fit_lowest(of, plan, slicing);
  const bool recalls = of_layers() && prices.empty();
  std::vector<std::vector<int>> layers;
  if (recalls) layers = intervals(slicing);
  std::vector<int> choices = of.all(RecomputeWay::none);
  std::vector<std::optional<RankMemory>> settled(static_cast<size_t>(layout_.ranks));
  std::vector<Rank> ranks;
  for (int rank = 0; rank < layout_.ranks; ++rank) {
    ranks.emplace_back(of, rank, prices, of_layers());
    if (min_memory_) ranks.back().free_most(choices_);
    ranks.back().choose(choices);
    if (recalls) settled[static_cast<size_t>(rank)] = recalled(of, rank, layers, choices);
  }
  while (true) {
    Fitted fitted = noted(of, choices, plan, slicing, settled);
    bool all = true;
    for (int rank = 0; rank < layout_.ranks; ++rank) {
      const auto r = static_cast<size_t>(rank);
      if (settled[r]) continue;
      const RankMemory& memory = fitted.memory[r];
      const int64_t excess = memory.peak_bytes - limit_.of(rank);
      const auto held = [&] {
        return evaluator_.held_at_peak(plan, slicing, fitted.costs, rank, memory);
      };
      const bool goes_on = excess > 0 && ranks[r].free_more(held(), excess, choices_);
      if (!goes_on) settled[r] = memory;
      if (goes_on) ranks[r].choose(choices);
      all &= !goes_on;
    }
    if (!all) continue;
    if (recalls) remember(of, layers, fitted);
    return fitted;
  }
}

/// Each rank as it holds least: with nothing recomputed, all its units or each stage at once.
RecomputeFit::Fitted RecomputeFit::fit_lowest(const UnitFit& of, Plan& plan, Slicing& slicing) {
  std::vector<int64_t> least(static_cast<size_t>(layout_.ranks), INT64_MAX);
  std::vector<int> best = of.all(RecomputeWay::none);
  for (const RecomputeWay way : ways()) {
    const Fitted fitted = noted(of, of.all(way), plan, slicing);
    for (int rank = 0; rank < layout_.ranks; ++rank) {
      const int64_t bytes = fitted.memory[static_cast<size_t>(rank)].peak_bytes;
      int64_t& least_yet = least[static_cast<size_t>(rank)];
      if (bytes < least_yet) of.choose(rank, way, best);
      least_yet = std::min(least_yet, bytes);
    }
  }
  return noted(of, best, plan, slicing);
}

/// All ranks at once, each leaves out one unit after the other, those that take longest first.
std::vector<int> RecomputeFit::without_needless(const UnitFit& of, std::vector<int> choices,
                                                Plan& plan, Slicing& slicing) {
  const std::vector<std::vector<size_t>> ranks = of.chosen(choices);
  size_t most = 0;
  for (const std::vector<size_t>& rank : ranks) most = std::max(most, rank.size());
  for (size_t at = 0; at < most; ++at) {
    std::vector<int> without = choices;
    for (const std::vector<size_t>& rank : ranks)
      if (at < rank.size()) without[rank[at]] = -1;
    const Fitted tried = noted(of, without, plan, slicing);
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      if (fits(tried, rank) && at < ranks[rank].size()) choices[ranks[rank][at]] = -1;
  }
  return choices;
}

/// The microbatches of each stage that ranks hold when they hold most and recompute nothing.
std::vector<int> RecomputeFit::held_without(const UnitFit& of, Plan& plan, Slicing& slicing) {
  const Fitted fitted = noted(of, of.all(RecomputeWay::none), plan, slicing);
  std::vector<int> held(slicing.stages.size(), 0);
  for (int rank = 0; rank < layout_.ranks; ++rank) {
    const std::vector<int> own = evaluator_.held_at_peak(plan, slicing, fitted.costs, rank,
                                                         fitted.memory[static_cast<size_t>(rank)]);
    std::ranges::transform(held, own, held.begin(), std::plus());
  }
  return held;
}

/// As few units as let each rank fit, in the order of what their bytes cost where nothing is
/// recomputed; bisects.
std::vector<int> RecomputeFit::cheapest_first(const UnitFit& of, size_t units, Plan& plan,
                                              Slicing& slicing) {
  const std::vector<std::vector<size_t>> ranks = of.cheapest(held_without(of, plan, slicing));
  std::vector<size_t> low(ranks.size(), 0), high;
  for (const std::vector<size_t>& rank : ranks) high.push_back(rank.size());
  const auto first = [&](const std::vector<size_t>& counts) {
    std::vector<int> choices(units, -1);
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      for (size_t i = 0; i < counts[rank]; ++i) choices[ranks[rank][i]] = 0;
    return choices;
  };
  while (low != high) {
    std::vector<size_t> middle;
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      middle.push_back(std::midpoint(low[rank], high[rank]));
    const Fitted tried = noted(of, first(middle), plan, slicing);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (low[rank] == high[rank]) continue;
      if (fits(tried, rank))
        high[rank] = middle[rank];
      else
        low[rank] = middle[rank] + 1;
    }
  }
  return first(high);
}

/// In a stage a unit does not quite free what it frees by itself: so units are also chosen by what
/// their bytes cost alone, and each rank takes the choice that takes less time.
RecomputeFit::Fitted RecomputeFit::fewer(const std::vector<int>& choices, Plan& plan,
                                         Slicing& slicing) {
  const UnitFit of = units(slicing);
  std::vector<int> best = without_needless(of, choices, plan, slicing);
  const std::vector<int> others =
      without_needless(of, cheapest_first(of, choices.size(), plan, slicing), plan, slicing);
  const Fitted tried = noted(of, others, plan, slicing);
  for (int rank = 0; rank < layout_.ranks; ++rank) {
    const bool shorter = of.seconds(rank, others) < of.seconds(rank, best);
    if (!shorter || !fits(tried, static_cast<size_t>(rank))) continue;
    for (const size_t unit : of.of_rank(rank)) best[unit] = others[unit];
  }
  return noted(of, best, plan, slicing);
}

RecomputeFit::Fitted RecomputeFit::note(const std::vector<int>& choices, Plan& plan,
                                        Slicing& slicing) {
  units(slicing).note(choices, plan);
  return {evaluator_.costs(plan, slicing), {}, choices};
}

/// From nothing to the most.
std::vector<RecomputeWay> RecomputeFit::ways() const {
  std::vector<RecomputeWay> ways{RecomputeWay::none, RecomputeWay::most};
  if (!of_layers()) ways.push_back(RecomputeWay::at_once);
  return ways;
}

/// The fastest with nothing recomputed, and with what lets a named schedule fit that holds little;
/// where neither finds a program, with all ranks alike.
std::optional<Evaluator::Evaluated> RecomputeFit::adapt(Plan& plan, const Slicing& slicing,
                                                        const SimulationOptions& options) {
  const UnitFit of = units(slicing);
  std::optional<Evaluator::Evaluated> best;
  Plan best_plan = plan;
  const auto attempt = [&](const std::vector<int>& choices) {
    Plan tried = plan;
    of.note(choices, tried);
    Slicing own = slicing;
    Costs costs = evaluator_.costs(tried, own);
    auto found = evaluator_.evaluate(tried, std::move(own), std::move(costs), limit_, options);
    if (!found || (best && best->simulation.makespan_s <= found->simulation.makespan_s)) return;
    best = std::move(found);
    best_plan = std::move(tried);
  };
  const std::vector<RecomputeWay> ways = this->ways();
  const std::vector<int> none = of.all(ways.front());
  if (!min_memory_) {
    attempt(none);
    const std::vector<int> choices = of_named(plan, slicing);
    if (choices != none) attempt(choices);
  }
  for (size_t i = min_memory_ ? ways.size() - 1 : 1; i < ways.size() && !best; ++i)
    attempt(of.all(ways[i]));
  plan = std::move(best_plan);
  return best;
}

/// The choices with which ranks fit, as far as they can, in the order of that named schedule which
/// holds least of those that run these stages on these ranks; none where there is none.
std::vector<int> RecomputeFit::of_named(Plan plan, Slicing slicing) {
  const ScheduleShape shape = layout_.shape();
  const Schedule* least = nullptr;
  int least_held = 0;
  for (const Schedule& schedule : schedules()) {
    if (schedule.refusal(shape)) continue;
    if (empty_program(schedule.placement, shape).rank_of_stage != placement_.rank_of_stage)
      continue;
    int held = 0;
    for (int rank = 0; rank < layout_.ranks; ++rank) held += schedule.held(shape, rank);
    if (least && held >= least_held) continue;
    least = &schedule;
    least_held = held;
  }
  if (!least) return units(slicing).all(RecomputeWay::none);
  plan.schedule = least->name;
  return fit(plan, slicing).choices;
}

}  // namespace penstock
