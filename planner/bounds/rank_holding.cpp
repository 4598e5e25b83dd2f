#include "planner/bounds/rank_holding.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace penstock {

RankHolding::RankHolding(const std::vector<HeldAtOnce>& moments, const std::vector<Stage>& stages,
                         int64_t limit) {
  for (const HeldAtOnce& moment : moments) {
    Moment one{-limit, {}, {}};
    for (const Stage& of : stages) {
      const int held = moment.held[of.number], turning = moment.turning[of.number];
      one.excess +=
          of.own + held * of.saved + moment.left[of.number] * of.for_weight + turning * of.turn;
      one.held.push_back(held);
      one.turning.push_back(turning);
    }
    if (std::ranges::any_of(moments_, [&](const Moment& known) { return known.covers(one); }))
      continue;
    std::erase_if(moments_, [&](const Moment& known) { return one.covers(known); });
    moments_.push_back(std::move(one));
  }
}

/// Is there always as much too much then as at the other moment?
bool RankHolding::Moment::covers(const Moment& other) const {
  return excess >= other.excess && std::ranges::equal(held, other.held, std::less_equal<>()) &&
         std::ranges::equal(turning, other.turning, std::greater_equal<>());
}

int64_t RankHolding::excess(const std::vector<FreedByStage>& freed) const {
  int64_t most = std::numeric_limits<int64_t>::min();
  for (const Moment& moment : moments_) {
    int64_t excess = moment.excess;
    for (size_t i = 0; i < freed.size(); ++i) {
      const int turning = moment.turning[i];
      excess -= freed[i].of.freed(moment.held[i], turning, turning * freed[i].again);
    }
    most = std::max(most, excess);
  }
  return most;
}

int64_t RankHolding::products() const {
  return moments_.empty() ? 0
                          : static_cast<int64_t>(moments_.size() * moments_.front().held.size());
}

}  // namespace penstock
