#include "planner/paths/split_recompute.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace penstock {

namespace {

/// A knapsack looks at so many: walks ask for thousands of them.
constexpr int most_nodes = 500;

}  // namespace

SplitRecompute::SplitRecompute(std::shared_ptr<const StageTable> bytes,
                               std::vector<LayerChoices> units, std::vector<int64_t> for_weight,
                               bool any, Placement placement, RankSpeeds speeds,
                               const std::vector<HeldAtOnce>& moments, std::vector<int64_t> limits)
    : bytes_(std::move(bytes)),
      units_(std::move(units)),
      for_weight_(units_.size() + 1, 0),
      any_(any),
      placement_(std::move(placement)),
      speeds_(std::move(speeds)),
      limits_(std::move(limits)),
      stages_(limits_.size()),
      moments_(limits_.size()),
      found_(limits_.size()),
      choices_(most_nodes) {
  std::partial_sum(for_weight.begin(), for_weight.end(), for_weight_.begin() + 1);
  for (const HeldAtOnce& moment : moments)
    moments_[static_cast<size_t>(moment.rank)].push_back(moment);
  for (size_t stage = 0; stage < placement_.rank_of_stage.size(); ++stage)
    stages_[static_cast<size_t>(placement_.rank_of_stage[stage])].push_back(stage);
}

/// `found` of a rank and its stages is empty where it does not fit.
template <typename Found>
std::optional<std::vector<double>> SplitRecompute::of_ranks(const std::vector<int>& begins,
                                                            const Found& found) const {
  std::vector<double> longer(begins.size(), 0.0);
  for (size_t rank = 0; rank < stages_.size(); ++rank) {
    Intervals intervals;
    for (const size_t s : stages_[rank]) {
      intervals.push_back(begins[s]);
      intervals.push_back(s + 1 < begins.size() ? begins[s + 1] : bytes_->units());
    }
    const std::vector<double>& of_rank = found(rank, intervals);
    if (of_rank.empty()) return std::nullopt;
    for (size_t i = 0; i < stages_[rank].size(); ++i) longer[stages_[rank][i]] = of_rank[i];
  }
  return longer;
}

std::optional<std::vector<double>> SplitRecompute::longer_s(const std::vector<int>& begins) const {
  return of_ranks(
      begins, [&](size_t rank, const Intervals& stages) -> const auto& {
        const auto [known, fresh] = found_[rank].try_emplace(stages);
        if (fresh) known->second = found(rank, stages, {});
        return known->second;
      });
}

std::optional<std::vector<double>> SplitRecompute::longer_s(
    const std::vector<int>& begins, const std::vector<double>& prices) const {
  return of_ranks(
      begins, [&](size_t rank, const Intervals& stages) { return found(rank, stages, prices); });
}

/// More than fits when the rank holds most, where its stages free so much of a microbatch.
int64_t SplitRecompute::excess(size_t rank, const Intervals& stages,
                               const std::vector<int64_t>& freed) const {
  const bool alone = placement_.one_stage_per_rank();
  int64_t most = 0;
  for (const HeldAtOnce& moment : moments_[rank]) {
    int64_t bytes = 0;
    for (size_t i = 0; i < stages_[rank].size(); ++i) {
      const size_t stage = stages_[rank][i];
      const auto begin = static_cast<size_t>(stages[2 * i]);
      const auto end = static_cast<size_t>(stages[2 * i + 1]);
      const StageBytes& of = bytes_->at(stages[2 * i], stages[2 * i + 1]);
      const int64_t shared = alone ? 0 : of.common + moment.held[stage] * of.received;
      bytes += of.kept(moment.held[stage]) - shared - moment.held[stage] * freed[i] +
               moment.left[stage] * (for_weight_[end] - for_weight_[begin]);
    }
    most = std::max(most, bytes);
  }
  return most - limits_[rank];
}

/// The choice of each unit, so that they free so much; -1: it recomputes nothing.
std::vector<int> SplitRecompute::chosen(const std::vector<LayerChoices>& units,
                                        int64_t bytes) const {
  if (any_) return choices_.of(units, bytes).choices;
  std::vector<int> chosen(units.size(), -1);
  for (size_t unit = 0; unit < units.size() && bytes > 0; ++unit) {
    chosen[unit] = 0;
    bytes -= units[unit].front().bytes;
  }
  return chosen;
}

/// Frees more as long as that does not fit, as RecomputeFit does.
std::vector<double> SplitRecompute::found(size_t rank, const Intervals& stages,
                                          const std::vector<double>& prices) const {
  std::vector<LayerChoices> choices;
  std::vector<size_t> units, stage_of;
  int64_t most = 0;
  for (size_t i = 0; i < stages_[rank].size(); ++i) {
    const int held = placement_.held[stages_[rank][i]];
    for (int unit = stages[2 * i]; unit < stages[2 * i + 1]; ++unit) {
      units.push_back(static_cast<size_t>(unit));
      choices.push_back(units_[units.back()]);
      for (LayerChoice& choice : choices.back()) {
        choice.bytes *= held;
        if (!prices.empty()) choice.seconds *= prices[stages_[rank][i]];
      }
      stage_of.push_back(i);
      if (choices.back().empty()) continue;
      most += std::ranges::max(choices.back(), {}, &LayerChoice::bytes).bytes;
    }
  }
  std::vector<double> longer(stages_[rank].size(), 0.0);
  std::vector<int64_t> freed_of(longer.size(), 0);
  int64_t freed = 0;
  for (int64_t more = excess(rank, stages, freed_of); more > 0;
       more = excess(rank, stages, freed_of)) {
    if (freed >= most) return {};
    const std::vector<int> chosen = this->chosen(choices, std::min(most, freed + more));
    std::ranges::fill(longer, 0.0);
    std::ranges::fill(freed_of, 0);
    freed = 0;
    for (size_t unit = 0; unit < choices.size(); ++unit) {
      if (chosen[unit] < 0) continue;
      const auto choice = static_cast<size_t>(chosen[unit]);
      longer[stage_of[unit]] += units_[units[unit]][choice].seconds / speeds_.relative()[rank];
      freed_of[stage_of[unit]] += units_[units[unit]][choice].bytes;
      freed += choices[unit][choice].bytes;
    }
  }
  return longer;
}

}  // namespace penstock
