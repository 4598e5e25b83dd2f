#include "planner/paths/split_recompute.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/bounds/growing_choices.hpp"

namespace penstock {

namespace {

/// A knapsack looks at so many: walks ask for thousands of them.
constexpr int most_nodes = 500;
/// To keep a choice of units takes as much, of time and of memory, as so many products.
constexpr int64_t products_to_keep = 50;

}  // namespace

SplitRecompute::SplitRecompute(std::shared_ptr<const StageTable> bytes,
                               std::vector<LayerChoices> units, std::vector<int64_t> for_weight,
                               Placement placement, RankSpeeds speeds,
                               const std::vector<HeldAtOnce>& moments, std::vector<int64_t> limits)
    : bytes_(std::move(bytes)),
      units_(std::move(units)),
      for_weight_(units_.size() + 1, 0),
      placement_(std::move(placement)),
      speeds_(std::move(speeds)),
      limits_(std::move(limits)),
      stages_(limits_.size()),
      moments_(limits_.size()),
      found_(limits_.size()),
      choices_(most_nodes) {
  std::partial_sum(for_weight.begin(), for_weight.end(), for_weight_.begin() + 1);
  for (size_t stage = 0; stage < placement_.rank_of_stage.size(); ++stage)
    stages_[static_cast<size_t>(placement_.rank_of_stage[stage])].push_back(stage);
  for (const HeldAtOnce& moment : moments) {
    const auto rank = static_cast<size_t>(moment.rank);
    RankMoment& own = moments_[rank].emplace_back();
    for (const size_t stage : stages_[rank]) {
      own.held.push_back(moment.held[stage]);
      own.left.push_back(moment.left[stage]);
      own.turning.push_back(moment.turning[stage]);
    }
  }
}

SplitRecompute::Intervals SplitRecompute::intervals(size_t rank,
                                                    const std::vector<int>& begins) const {
  Intervals intervals;
  for (const size_t s : stages_[rank]) {
    intervals.push_back(begins[s]);
    intervals.push_back(s + 1 < begins.size() ? begins[s + 1] : bytes_->units());
  }
  return intervals;
}

std::optional<std::vector<double>> SplitRecompute::longer_s(const std::vector<int>& begins) const {
  std::vector<double> longer(begins.size(), 0.0);
  for (size_t rank = 0; rank < stages_.size(); ++rank) {
    const Intervals stages = intervals(rank, begins);
    const auto [known, fresh] = found_[rank].try_emplace(stages);
    if (fresh) known->second = found(rank, stages, {});
    if (!known->second) return std::nullopt;
    for (size_t i = 0; i < stages_[rank].size(); ++i)
      longer[stages_[rank][i]] = known->second->longer_s[i];
  }
  return longer;
}

std::optional<SplitRecompute::Option> SplitRecompute::cheapest(
    size_t rank, const std::vector<int>& begins, const std::vector<double>& prices) const {
  return found(rank, intervals(rank, begins), prices);
}

RankHolding SplitRecompute::holding(size_t rank, const Intervals& stages) const {
  const bool alone = placement_.one_stage_per_rank();
  std::vector<RankHolding::Stage> own;
  for (size_t i = 0; i < stages_[rank].size(); ++i) {
    const int begin = stages[2 * i], end = stages[2 * i + 1];
    const StageBytes& bytes = bytes_->at(begin, end);
    own.push_back({bytes.always - (alone ? 0 : bytes.common),
                   bytes.per_microbatch - (alone ? 0 : bytes.received),
                   for_weight_[static_cast<size_t>(end)] - for_weight_[static_cast<size_t>(begin)],
                   bytes.turn});
  }
  return {moments_[rank], own, limits_[rank]};
}

/// Each unit by itself or, where all that free anything recompute, all at once.
FreedByStage SplitRecompute::freed(int begin, std::span<const int> choices) const {
  FreedByStage freed;
  bool all = true;
  for (size_t i = 0; i < choices.size(); ++i) {
    const LayerChoices& unit = units_[static_cast<size_t>(begin) + i];
    if (unit.empty()) continue;
    if (choices[i] >= 0) {
      const LayerChoice& choice = unit[static_cast<size_t>(choices[i])];
      freed.of.seconds += choice.seconds;
      freed.of.bytes += choice.bytes;
      freed.of.working = std::max(freed.of.working, choice.working);
    }
    all = all && (choices[i] >= 0 || unit.front().bytes == 0);
    freed.of.at_once += unit.front().at_once;
  }
  if (!all) freed.of.at_once = 0;
  const int end = begin + static_cast<int>(choices.size());
  if (choices.back() >= 0) freed.again = bytes_->at(begin, end).again;
  return freed;
}

bool SplitRecompute::lengthen(size_t rank, const std::vector<int>& begins,
                              const std::vector<int>& choices,
                              std::vector<double>& longer_s) const {
  const Intervals stages = intervals(rank, begins);
  std::vector<FreedByStage> freed;
  int64_t working = 0;
  for (size_t i = 0; i < stages_[rank].size(); ++i) {
    const int begin = stages[2 * i];
    const auto of_stage = std::span(choices).subspan(
        static_cast<size_t>(begin), static_cast<size_t>(stages[2 * i + 1] - begin));
    freed.push_back(this->freed(begin, of_stage));
    working = std::max(working, freed.back().of.working);
    longer_s[stages_[rank][i]] = freed.back().of.seconds / speeds_.relative()[rank];
  }
  return holding(rank, stages).excess(freed).bytes + working <= 0;
}

/// Choices of units [begin, end) but for those that free no more than others that take no longer,
/// the shortest first; absent where there are too many. The last may also be made at once.
std::optional<std::vector<SplitRecompute::Chosen>> SplitRecompute::of_units(int begin, int end,
                                                                            int64_t most) const {
  std::vector<Chosen> all(1);
  for (int unit = begin; unit < end; ++unit) {
    std::vector<Chosen> more;
    const LayerChoices& own = units_[static_cast<size_t>(unit)];
    for (const Chosen& of : all) {
      for (int choice = -1; choice < static_cast<int>(own.size()); ++choice) {
        const LayerChoice taken = choice < 0 ? LayerChoice{} : own[static_cast<size_t>(choice)];
        more.push_back(of);
        more.back().of.seconds += taken.seconds;
        more.back().of.bytes += taken.bytes;
        more.back().choices.push_back(choice);
      }
    }
    std::ranges::stable_sort(
        more, {}, [](const Chosen& one) { return std::pair(one.of.seconds, -one.of.bytes); });
    all.clear();
    for (Chosen& one : more)
      if (all.empty() || one.of.bytes > all.back().of.bytes) all.push_back(std::move(one));
    if (static_cast<int64_t>(all.size()) > most) return std::nullopt;
  }
  for (int unit = begin; unit < end; ++unit) {
    const LayerChoices& own = units_[static_cast<size_t>(unit)];
    if (!own.empty()) all.back().of.at_once += own.front().at_once;
  }
  return all;
}

/// The choices of a rank's stages, put together one stage after the other.
class SplitRecompute::Combining {
 public:
  Combining(const SplitRecompute& of, size_t rank, Intervals stages, int64_t most)
      : of_(of),
        rank_(rank),
        stages_(std::move(stages)),
        holding_(of.holding(rank, stages_)),
        most_(most),
        taken_(stages_.size() / 2),
        freed_(taken_.size()) {}

  std::optional<std::vector<Option>> run() {
    for (size_t i = 0; i < taken_.size(); ++i) {
      auto of_stage = of_.of_units(stages_[2 * i], stages_[2 * i + 1], most_ / products_to_keep);
      if (!of_stage) return std::nullopt;
      all_.push_back(std::move(*of_stage));
    }
    combine(0);
    if (products_ > most_) return std::nullopt;
    return std::move(options_);
  }
  int64_t products() const { return products_; }

 private:
  bool fits() {
    products_ += holding_.products();
    for (size_t i = 0; i < taken_.size(); ++i) freed_[i].of = all_[i][taken_[i]].of;
    return holding_.excess(freed_).bytes <= 0;
  }

  /// Does it not fit with less in any stage?
  bool is_least() {
    for (size_t& taken : taken_) {
      if (taken == 0) continue;
      --taken;
      const bool less = fits();
      ++taken;
      if (less) return false;
    }
    return true;
  }

  /// The last stage takes the least that fits: the less, the more the one before it frees.
  void combine(size_t i) {
    if (i + 1 == taken_.size()) return take();
    if (i + 2 == taken_.size()) taken_.back() = all_.back().size() - 1;
    for (taken_[i] = 0; taken_[i] < all_[i].size() && products_ <= most_; ++taken_[i])
      combine(i + 1);
  }

  void take() {
    size_t& last = taken_.back();
    if (taken_.size() == 1) last = all_.back().size() - 1;
    if (!fits()) return;
    while (last > 0) {
      --last;
      if (fits()) continue;
      ++last;
      break;
    }
    if (!is_least()) return;
    products_ += products_to_keep;
    options_.push_back(option());
  }

  Option option() const {
    Option option;
    for (size_t i = 0; i < taken_.size(); ++i) {
      const Chosen& one = all_[i][taken_[i]];
      option.longer_s.push_back(one.of.seconds / of_.speeds_.relative()[rank_]);
      option.choices.insert(option.choices.end(), one.choices.begin(), one.choices.end());
    }
    return option;
  }

  const SplitRecompute& of_;
  const size_t rank_;
  const Intervals stages_;
  const RankHolding holding_;
  const int64_t most_;
  std::vector<std::vector<Chosen>> all_;  // by stage
  std::vector<size_t> taken_;             // likewise
  std::vector<FreedByStage> freed_;       // by what was tried last
  std::vector<Option> options_;
  int64_t products_ = 0;
};

std::optional<std::vector<SplitRecompute::Option>> SplitRecompute::options(
    size_t rank, const std::vector<int>& begins, int64_t most, int64_t& products) const {
  Combining combining(*this, rank, intervals(rank, begins), most);
  auto options = combining.run();
  products += combining.products();
  return options;
}

/// Frees more as long as that does not fit, as RecomputeFit does.
std::optional<SplitRecompute::Option> SplitRecompute::found(
    size_t rank, const Intervals& stages, const std::vector<double>& prices) const {
  const size_t count = stages_[rank].size();
  std::vector<LayerChoices> units;
  std::vector<size_t> stage_of_unit;
  for (size_t i = 0; i < count; ++i) {
    for (int unit = stages[2 * i]; unit < stages[2 * i + 1]; ++unit) {
      stage_of_unit.push_back(i);
      units.push_back(units_[static_cast<size_t>(unit)]);
      if (prices.empty()) continue;
      for (LayerChoice& choice : units.back()) choice.seconds *= prices[stages_[rank][i]];
    }
  }
  GrowingChoices growing(std::move(units));
  std::vector<FreedByStage> freed(count);
  std::vector<int> held(stage_of_unit.size());
  const RankHolding holding = this->holding(rank, stages);
  for (auto most = holding.excess(freed); most.bytes > 0; most = holding.excess(freed)) {
    std::ranges::transform(stage_of_unit, held.begin(),
                           [&](size_t i) { return most.when->held[i]; });
    if (!growing.free_more(held, most.bytes, choices_)) return std::nullopt;
    std::span<const int> rest(growing.choices());
    for (size_t i = 0; i < count; ++i) {
      const auto own = static_cast<size_t>(stages[2 * i + 1] - stages[2 * i]);
      freed[i] = this->freed(stages[2 * i], rest.first(own));
      rest = rest.subspan(own);
    }
  }
  Option option{{}, growing.choices()};
  for (const FreedByStage& of : freed)
    option.longer_s.push_back(of.of.seconds / speeds_.relative()[rank]);
  return option;
}

}  // namespace penstock
