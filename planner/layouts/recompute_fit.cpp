#include "planner/layouts/recompute_fit.hpp"

#include <algorithm>
#include <utility>

#include "graph/cuts/segments.hpp"

namespace penstock {

RecomputeLevels RecomputeFit::levels(const Slicing& slicing) const {
  return {placement_.rank_of_stage, units_of_stages(slicing, inputs_.units)};
}

/// Makes ranks fit that would not, or hold as little as they can.
RecomputeFit::Fitted RecomputeFit::fit(Plan& plan, Slicing& slicing,
                                       const std::vector<double>& prices) {
  if (inputs_.model.layers) return fit_layers(plan, slicing, prices);
  const RecomputeLevels of = levels(slicing);
  std::vector<int> noted;
  Fitted fitted;
  const auto peaks = [&](const std::vector<int>& levels) {
    noted = levels;
    of.note(levels, plan);
    fitted.costs = evaluator_.costs(plan, slicing);
    fitted.memory = evaluator_.memory(plan, slicing, fitted.costs);
    std::vector<int64_t> bytes;
    for (const RankMemory& rank : fitted.memory) bytes.push_back(rank.peak_bytes);
    return bytes;
  };
  const std::vector<int> chosen =
      min_memory_ ? lowest_levels(of, peaks) : min_levels(of, limit_, peaks);
  if (chosen == noted) return fitted;
  of.note(chosen, plan);
  return {evaluator_.costs(plan, slicing), {}};
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

/// The same for a table of layers. What its choices free is not quite what a rank then holds less:
/// recomputing takes memory meanwhile. A rank frees more until it fits, then all that it can, and
/// where that is not enough it begins again without the choices that take most meanwhile.
RecomputeFit::Fitted RecomputeFit::fit_layers(Plan& plan, Slicing& slicing,
                                              const std::vector<double>& prices) {
  const LayerFit of(*layout_.measured, placement_, slicing);
  const auto ranks = static_cast<size_t>(layout_.ranks);
  std::vector<ToFree> wanted(ranks);
  std::vector<std::optional<RankMemory>> settled(ranks);
  const std::vector<std::vector<int>> of_ranks = intervals(slicing);
  for (size_t rank = 0; rank < ranks && min_memory_; ++rank)
    wanted[rank].bytes = of.most(static_cast<int>(rank));
  if (prices.empty()) recall(of_ranks, wanted, settled);
  Fitted fitted;
  while (true) {
    const auto [freed, choices] = of.free(wanted, choices_, prices);
    of.note(choices, plan);
    fitted.costs = evaluator_.costs(plan, slicing);
    fitted.memory = evaluator_.memory(plan, slicing, fitted.costs, settled);
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
    for (size_t rank = 0; rank < ranks && prices.empty(); ++rank)
      fitted_[rank].try_emplace(of_ranks[rank], FittedRank{wanted[rank], fitted.memory[rank]});
    fitted.choices = choices;
    return fitted;
  }
}

RecomputeFit::Fitted RecomputeFit::note(const std::vector<int>& choices, Plan& plan,
                                        Slicing& slicing) {
  LayerFit(*layout_.measured, placement_, slicing).note(choices, plan);
  return {evaluator_.costs(plan, slicing), {}, choices};
}

/// Whether there is anything left to try.
bool RecomputeFit::free_more(const LayerFit& of, int rank, int64_t bytes, int64_t freed,
                             ToFree& wanted) const {
  const int64_t most = of.most(rank, wanted.working_bytes);
  if (freed < most) {
    wanted.bytes = std::min(most, bytes);
    return true;
  }
  const std::optional<int64_t> less = of.less_working(rank, wanted.working_bytes);
  if (!less || of.most(rank, *less) == 0) return false;
  wanted = {std::min(of.most(rank, *less), int64_t{1}), *less};
  return true;
}

/// For `adaptive` all ranks recompute alike, as little as lets something fit.
std::optional<Evaluator::Evaluated> RecomputeFit::adapt(Plan& plan, const Slicing& slicing,
                                                        const SimulationOptions& options) {
  if (inputs_.model.layers) return adapt_layers(plan, slicing, options);
  const RecomputeLevels of = levels(slicing);
  const auto evaluated = [&](const std::vector<int>& levels) {
    of.note(levels, plan);
    Slicing own = slicing;
    Costs costs = evaluator_.costs(plan, own);
    return evaluator_.evaluate(plan, std::move(own), std::move(costs), limit_, options);
  };
  std::vector<int> all_units, whole;
  for (int rank = 0; rank < of.ranks(); ++rank) {
    all_units.push_back(of.all_units(rank));
    whole.push_back(of.whole(rank));
  }
  if (min_memory_) return evaluated(whole);
  for (const std::vector<int>& levels : {std::vector<int>(whole.size(), 0), all_units, whole}) {
    if (auto found = evaluated(levels)) return found;
  }
  return std::nullopt;
}

/// Nothing, or the most.
std::optional<Evaluator::Evaluated> RecomputeFit::adapt_layers(Plan& plan, const Slicing& slicing,
                                                               const SimulationOptions& options) {
  const LayerFit of(*layout_.measured, placement_, slicing);
  for (const bool all : {min_memory_, true}) {
    std::vector<ToFree> wanted;
    for (int rank = 0; rank < layout_.ranks; ++rank)
      wanted.push_back({.bytes = all ? of.most(rank) : 0});
    of.note(of.free(wanted, choices_).choices, plan);
    Slicing own = slicing;
    Costs costs = evaluator_.costs(plan, own);
    if (auto found = evaluator_.evaluate(plan, std::move(own), std::move(costs), limit_, options))
      return found;
  }
  return std::nullopt;
}

}  // namespace penstock
