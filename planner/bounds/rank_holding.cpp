#include "planner/bounds/rank_holding.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace penstock {

RankHolding::RankHolding(const std::vector<RankMoment>& moments, const std::vector<Stage>& stages,
                         int64_t limit) {
  moments_.reserve(moments.size());
  for (const RankMoment& moment : moments) {
    Moment one{-limit, &moment};
    for (size_t i = 0; i < stages.size(); ++i) {
      const Stage& of = stages[i];
      one.excess += of.own + moment.held[i] * of.saved + moment.left[i] * of.for_weight +
                    moment.turning[i] * of.turn;
    }
    if (std::ranges::any_of(moments_, [&](const Moment& known) { return known.covers(one); }))
      continue;
    std::erase_if(moments_, [&](const Moment& known) { return one.covers(known); });
    moments_.push_back(one);
  }
}

/// Is there always as much too much then as at the other moment?
bool RankHolding::Moment::covers(const Moment& other) const {
  return excess >= other.excess &&
         std::ranges::equal(of->held, other.of->held, std::less_equal<>()) &&
         std::ranges::equal(of->turning, other.of->turning, std::greater_equal<>());
}

RankHolding::Excess RankHolding::excess(const std::vector<FreedByStage>& freed) const {
  Excess most{std::numeric_limits<int64_t>::min(), nullptr};
  for (const Moment& moment : moments_) {
    int64_t excess = moment.excess;
    for (size_t i = 0; i < freed.size(); ++i) {
      const int turning = moment.of->turning[i];
      excess -= freed[i].of.freed(moment.of->held[i], turning, turning * freed[i].again);
    }
    if (excess > most.bytes) most = {excess, moment.of};
  }
  return most;
}

int64_t RankHolding::products() const {
  return moments_.empty()
             ? 0
             : static_cast<int64_t>(moments_.size() * moments_.front().of->held.size());
}

}  // namespace penstock
