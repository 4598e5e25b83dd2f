#include "planner/paths/shared_units.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

namespace penstock {

SharedUnits::SharedUnits(const ChainCosts& costs, const Placement& placement,
                         const RankSpeeds& speeds, std::shared_ptr<const WholeRecompute> recompute,
                         double times)
    : sums_(costs, placement.microbatches, WorkSums::prefixes(costs.units())),
      units_(costs.units()),
      linked_(std::ranges::all_of(costs.linked, [](char linked) { return linked != 0; })),
      speeds_(speeds),
      recompute_(std::move(recompute)),
      times_(times),
      stages_(static_cast<size_t>(placement.ranks)),
      stage_count_(placement.rank_of_stage.size()) {
  for (size_t stage = 0; stage < stage_count_; ++stage)
    stages_[static_cast<size_t>(placement.rank_of_stage[stage])].push_back(stage);
  smallest_s_.push_back(0);
  for (int unit = 0; unit < units_; ++unit) smallest_s_.push_back(sums_.inputs(unit, unit + 1, 0));
  std::sort(smallest_s_.begin() + 1, smallest_s_.end());
  std::partial_sum(smallest_s_.begin(), smallest_s_.end(), smallest_s_.begin());
}

/// The least wherever the stage begins.
const SharedUnits::Least& SharedUnits::least(size_t stage, int units) const {
  constexpr double never = std::numeric_limits<double>::infinity();
  const auto [known, fresh] = known_.try_emplace({stage, units}, Least{never, never});
  if (!fresh) return known->second;
  const int behind = static_cast<int>(stage_count_ - 1 - stage);
  const int low = behind == 0 ? units_ - units : static_cast<int>(stage);
  const int high = stage == 0 ? 0 : units_ - behind - units;
  auto& [least_inputs_s, least_all_s] = known->second;
  for (int begin = low; begin <= high; ++begin) {
    const int end = begin + units;
    const double inputs_s = sums_.inputs(begin, end, 1);
    least_inputs_s = std::min(least_inputs_s, inputs_s);
    least_all_s = std::min(least_all_s, inputs_s + sums_.weights(begin, end));
  }
  return known->second;
}

/// Seconds without recompute: the rank's own, and those of a microbatch through the `before` units
/// before its first stage, there and back.
double SharedUnits::own_load_s(size_t rank, const Dealt& dealt, int before) const {
  const double head_s = sums_.bare_forward(0, before), tail_s = sums_.bare_input(0, before);
  double inputs_s = 0, all_s = 0;
  for (size_t i = 0; i < dealt.size(); ++i) {
    const Least& stage = least(stages_[rank][i], dealt[i]);
    inputs_s += stage.inputs_s;
    all_s += stage.all_s;
  }
  const double speed = speeds_.relative()[rank];
  return head_s + std::max(tail_s + inputs_s / speed, all_s / speed);
}

/// The least over all ways to deal the units out to the rank's stages.
double SharedUnits::least_load_s(size_t rank, int units) const {
  constexpr double never = std::numeric_limits<double>::infinity();
  const auto [known, fresh] = known_load_s_.try_emplace({rank, units}, never);
  if (!fresh || units > units_) return known->second;
  const int before = linked_ ? static_cast<int>(stages_[rank].front()) : 0;
  const int most = 1 + std::min(units - static_cast<int>(stages_[rank].size()),
                                units_ - static_cast<int>(stage_count_));
  SplitBox box;
  box.stages = {std::vector<int>(stage_count_, 1), std::vector<int>(stage_count_, most)};
  box.ranks.low = box.ranks.high = std::vector<int>(stages_.size(), units);
  double least_s = never;
  const bool all = recompute_->each_way(rank, box, [&](const Dealt& dealt) {
    const double own_s = own_load_s(rank, dealt, before);
    if (own_s < least_s)
      least_s = std::min(least_s, own_s + times_ * recompute_->seconds(rank, dealt));
  });
  const double any_s = sums_.bare_forward(0, before) + sums_.bare_input(0, before) +
                       smallest_s_[static_cast<size_t>(units)] / speeds_.relative()[rank];
  return known->second = all ? std::max(least_s, any_s) : any_s;
}

SharedUnits::Dealt SharedUnits::dealt(const std::vector<int>& begins, size_t rank) const {
  Dealt dealt;
  for (const size_t stage : stages_[rank])
    dealt.push_back((stage + 1 < begins.size() ? begins[stage + 1] : units_) - begins[stage]);
  return dealt;
}

double SharedUnits::split_s(const std::vector<int>& begins) const {
  double longest_s = 0;
  for (size_t rank = 0; rank < stages_.size(); ++rank)
    longest_s = std::max(
        longest_s, load_s(rank, dealt(begins, rank), linked_ ? begins[stages_[rank].front()] : 0));
  return longest_s;
}

SharedUnits::Ways::value_type SharedUnits::ways(size_t rank, const SplitBox& box,
                                                double seconds) const {
  const int before = linked_ ? box.begins.low[stages_[rank].front()] : 0;
  std::vector<DealtHull::Way> ways;
  const bool all = recompute_->each_way(rank, box, [&](const Dealt& dealt) {
    const double own_s = own_load_s(rank, dealt, before);
    if (own_s > seconds) return;
    const double again_s = recompute_->seconds(rank, dealt);
    if (own_s + times_ * again_s <= seconds) ways.push_back({dealt, again_s});
  });
  if (!all) return std::nullopt;
  return ways;
}

/// Leaves out numbers of units that no way has.
void SharedUnits::narrow_rank(size_t rank, const std::vector<DealtHull::Way>& ways,
                              SplitBox& box) const {
  Ranges of{Dealt(stages_[rank].size(), units_), Dealt(stages_[rank].size(), 0)};
  int fewest = units_, most = 0;
  for (const DealtHull::Way& way : ways) {
    const int units = std::accumulate(way.units.begin(), way.units.end(), 0);
    fewest = std::min(fewest, units);
    most = std::max(most, units);
    for (size_t i = 0; i < way.units.size(); ++i) {
      of.low[i] = std::min(of.low[i], way.units[i]);
      of.high[i] = std::max(of.high[i], way.units[i]);
    }
  }
  const auto narrow = [](Ranges& ranges, size_t number, int low, int high) {
    ranges.low[number] = std::max(ranges.low[number], low);
    ranges.high[number] = std::min(ranges.high[number], high);
  };
  narrow(box.ranks, rank, fewest, most);
  for (size_t i = 0; i < stages_[rank].size(); ++i)
    narrow(box.stages, stages_[rank][i], of.low[i], of.high[i]);
}

SharedUnits::Ways SharedUnits::narrow(SplitBox& box, double seconds) const {
  const std::lock_guard one_at_a_time(narrows_);
  Ways ways;
  for (size_t rank = 0; rank < stages_.size(); ++rank) {
    int& high = box.ranks.high[rank];
    for (int units = box.ranks.low[rank]; units <= high; ++units)
      if (least_load_s(rank, units) > seconds) high = units - 1;
    ways.push_back(this->ways(rank, box, seconds));
    if (ways.back()) narrow_rank(rank, *ways.back(), box);
  }
  return ways;
}

/// Unit for unit to the rank that is done with one more first.
double SharedUnits::step_s() const {
  struct Next {
    double seconds;
    size_t rank;
    int units;
    auto operator<=>(const Next&) const = default;
  };
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  double done_s = 0;
  int left = units_;
  const auto consider = [&](size_t rank, int units, double no_less_s) {
    next.push({std::max(no_less_s, least_load_s(rank, units)), rank, units});
  };
  for (size_t rank = 0; rank < stages_.size(); ++rank) {
    const int least = static_cast<int>(stages_[rank].size());
    left -= least;
    const double first_s = least_load_s(rank, least);
    done_s = std::max(done_s, first_s);
    consider(rank, least + 1, first_s);
  }
  for (; left > 0; --left) {
    const Next one = next.top();
    next.pop();
    done_s = std::max(done_s, one.seconds);
    consider(one.rank, one.units + 1, one.seconds);
  }
  return done_s;
}

}  // namespace penstock
