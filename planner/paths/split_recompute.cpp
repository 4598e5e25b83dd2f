#include "planner/paths/split_recompute.hpp"

#include <algorithm>
#include <utility>

namespace penstock {

SplitRecompute::SplitRecompute(std::shared_ptr<const StageTable> bytes,
                               std::vector<LayerChoices> units, bool any, Placement placement,
                               RankSpeeds speeds, std::vector<int64_t> limits)
    : bytes_(std::move(bytes)),
      units_(std::move(units)),
      any_(any),
      placement_(std::move(placement)),
      speeds_(std::move(speeds)),
      limits_(std::move(limits)),
      stages_(limits_.size()),
      found_(limits_.size()) {
  for (size_t stage = 0; stage < placement_.rank_of_stage.size(); ++stage)
    stages_[static_cast<size_t>(placement_.rank_of_stage[stage])].push_back(stage);
}

std::optional<std::vector<double>> SplitRecompute::longer_s(const std::vector<int>& begins) const {
  std::vector<double> longer(begins.size(), 0.0);
  for (size_t rank = 0; rank < stages_.size(); ++rank) {
    Intervals intervals;
    for (const size_t s : stages_[rank]) {
      intervals.push_back(begins[s]);
      intervals.push_back(s + 1 < begins.size() ? begins[s + 1] : bytes_->units());
    }
    const auto [known, fresh] = found_[rank].try_emplace(intervals);
    if (fresh) known->second = found(rank, intervals);
    if (known->second.empty()) return std::nullopt;
    for (size_t i = 0; i < stages_[rank].size(); ++i) longer[stages_[rank][i]] = known->second[i];
  }
  return longer;
}

std::vector<double> SplitRecompute::found(size_t rank, const Intervals& stages) const {
  const bool alone = placement_.one_stage_per_rank();
  int64_t excess = -limits_[rank];
  std::vector<LayerChoices> choices;
  std::vector<size_t> stage_of;
  for (size_t i = 0; i < stages_[rank].size(); ++i) {
    const int held = placement_.held[stages_[rank][i]];
    const StageBytes& bytes = bytes_->at(stages[2 * i], stages[2 * i + 1]);
    excess += bytes.kept(held) - (alone ? 0 : bytes.common + held * bytes.received);
    for (int unit = stages[2 * i]; unit < stages[2 * i + 1]; ++unit) {
      choices.push_back(units_[static_cast<size_t>(unit)]);
      for (LayerChoice& choice : choices.back()) choice.bytes *= held;
      stage_of.push_back(i);
    }
  }
  std::vector<double> longer(stages_[rank].size(), 0.0);
  const auto take = [&](size_t unit, const LayerChoice& choice) {
    longer[stage_of[unit]] += choice.seconds / speeds_.relative()[rank];
    excess -= choice.bytes;
  };
  if (!any_) {
    for (size_t unit = 0; unit < choices.size() && excess > 0; ++unit)
      take(unit, choices[unit].front());
    return excess > 0 ? std::vector<double>{} : longer;
  }
  const ChosenLayers chosen = choose_layers(choices, excess);
  if (!chosen.enough) return {};
  for (size_t unit = 0; unit < choices.size(); ++unit)
    if (chosen.choices[unit] >= 0)
      take(unit, choices[unit][static_cast<size_t>(chosen.choices[unit])]);
  return longer;
}

}  // namespace penstock
