#include "planner/layouts/recompute_fit.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

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

/// Takes over what ranks of the same layers freed before, and then held.
void RecomputeFit::recall(const std::vector<std::vector<int>>& of_ranks,
                          std::vector<ToFree>& wanted,
                          std::vector<std::optional<RankMemory>>& settled) {
  fitted_.resize(of_ranks.size());
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const auto known = fitted_[rank].find(of_ranks[rank]);
    if (known == fitted_[rank].end()) continue;
    wanted[rank] = known->second.freed;
    settled[rank] = known->second.memory;
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

/// A rank does not quite hold less by what its choices free: recomputing takes memory meanwhile.
/// So it frees more until it fits, then all that it can, and where that is not enough its stages
/// are recomputed at once; layers of a table begin again without the choices that take most.
RecomputeFit::Fitted RecomputeFit::fit(Plan& plan, Slicing& slicing,
                                       const std::vector<double>& prices) {
  const UnitFit of = units(slicing);
  if (min_memory_ && !of_layers()) return fit_lowest(of, plan, slicing);
  const auto ranks = static_cast<size_t>(layout_.ranks);
  std::vector<ToFree> wanted(ranks);
  std::vector<std::optional<RankMemory>> settled(ranks);
  const bool recalls = of_layers() && prices.empty();
  std::vector<std::vector<int>> of_ranks;
  if (recalls) of_ranks = intervals(slicing);
  for (size_t rank = 0; rank < ranks && min_memory_; ++rank)
    wanted[rank].bytes = of.most(static_cast<int>(rank));
  if (recalls) recall(of_ranks, wanted, settled);
  while (true) {
    const auto [freed, choices] = of.free(wanted, choices_, prices);
    Fitted fitted = noted(of, choices, plan, slicing, settled);
    bool all = true;
    for (size_t rank = 0; rank < ranks; ++rank) {
      const int64_t excess = fitted.memory[rank].peak_bytes - limit_.of(static_cast<int>(rank));
      const bool goes_on =
          !settled[rank] && excess > 0 &&
          free_more(of, static_cast<int>(rank), freed[rank] + excess, freed[rank], wanted[rank]);
      if (!goes_on) settled[rank] = fitted.memory[rank];
      all &= !goes_on;
    }
    if (!all) continue;
    for (size_t rank = 0; rank < ranks && recalls; ++rank)
      fitted_[rank].try_emplace(of_ranks[rank], FittedRank{wanted[rank], fitted.memory[rank]});
    return fitted;
  }
}

/// Each rank as it holds least: with nothing recomputed, all its units or each stage at once.
RecomputeFit::Fitted RecomputeFit::fit_lowest(const UnitFit& of, Plan& plan, Slicing& slicing) {
  std::vector<ToFree> best(static_cast<size_t>(layout_.ranks));
  std::vector<int64_t> least(best.size(), INT64_MAX);
  for (const ToFree& way : ways()) {
    const std::vector<ToFree> alike(best.size(), way);
    const Fitted fitted = noted(of, of.free(alike, choices_).choices, plan, slicing);
    for (size_t rank = 0; rank < best.size(); ++rank) {
      if (fitted.memory[rank].peak_bytes >= least[rank]) continue;
      least[rank] = fitted.memory[rank].peak_bytes;
      best[rank] = way;
    }
  }
  return noted(of, of.free(best, choices_).choices, plan, slicing);
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

/// As few units as let each rank fit, in the order of what their bytes cost; bisects.
std::vector<int> RecomputeFit::cheapest_first(const UnitFit& of, size_t units, Plan& plan,
                                              Slicing& slicing) {
  const std::vector<std::vector<size_t>> ranks = of.cheapest();
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

/// Is there anything left to try: stages as a whole, or layers without the choices that
/// take most meanwhile?
bool RecomputeFit::free_more(const UnitFit& of, int rank, int64_t bytes, int64_t freed,
                             ToFree& wanted) const {
  const int64_t most = of.most(rank, wanted.working_bytes);
  if (freed < most) {
    wanted.bytes = std::min(most, bytes);
    return true;
  }
  if (!of_layers()) return !std::exchange(wanted.at_once, true);
  const std::optional<int64_t> less = of.less_working(rank, wanted.working_bytes);
  if (!less || of.most(rank, *less) == 0) return false;
  wanted = {std::min(of.most(rank, *less), int64_t{1}), *less};
  return true;
}

/// From nothing to the most.
std::vector<ToFree> RecomputeFit::ways() const {
  std::vector<ToFree> ways{{}, {.bytes = INT64_MAX}};
  if (!of_layers()) ways.push_back({.at_once = true});
  return ways;
}

/// As little as lets something fit.
std::optional<Evaluator::Evaluated> RecomputeFit::adapt(Plan& plan, const Slicing& slicing,
                                                        const SimulationOptions& options) {
  const UnitFit of = units(slicing);
  std::vector<ToFree> tried = ways();
  if (min_memory_) tried = {tried.back()};
  for (const ToFree& way : tried) {
    const std::vector<ToFree> alike(static_cast<size_t>(layout_.ranks), way);
    of.note(of.free(alike, choices_).choices, plan);
    Slicing own = slicing;
    Costs costs = evaluator_.costs(plan, own);
    if (auto found = evaluator_.evaluate(plan, std::move(own), std::move(costs), limit_, options))
      return found;
  }
  return std::nullopt;
}

}  // namespace penstock
