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

/// With what a microbatch passes before the first stage of the rank and behind its last backward.
double SharedUnits::load_s(size_t rank, int units) const {
  if (units > units_) return std::numeric_limits<double>::infinity();
  const int before = linked_ ? static_cast<int>(stages_[rank].front()) : 0;
  const double head_s = sums_.bare_forward(0, before), tail_s = sums_.bare_input(0, before);
  const double speed = speeds_.relative()[rank];
  const auto seconds = [&](const WholeRecompute::Dealt& dealt) {
    double inputs_s = 0, all_s = 0;
    for (size_t i = 0; i < dealt.size(); ++i) {
      const Least& stage = least(stages_[rank][i], dealt[i]);
      inputs_s += stage.inputs_s;
      all_s += stage.all_s;
    }
    return head_s + std::max(tail_s + inputs_s / speed, all_s / speed);
  };
  return std::max(recompute_->least_load_s(rank, units, seconds, times_),
                  head_s + tail_s + smallest_s_[static_cast<size_t>(units)] / speed);
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
    next.push({std::max(no_less_s, load_s(rank, units)), rank, units});
  };
  for (size_t rank = 0; rank < stages_.size(); ++rank) {
    const int least = static_cast<int>(stages_[rank].size());
    left -= least;
    const double first_s = load_s(rank, least);
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
