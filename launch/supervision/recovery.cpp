#include "launch/supervision/recovery.hpp"

#include <algorithm>
#include <utility>

namespace penstock {

namespace {

constexpr int kMaxInARow = 3;

bool same_place(const RankFailure& one, const RankFailure& other) {
  return one.rank == other.rank && one.step == other.step && one.action == other.action;
}

}  // namespace

std::optional<int64_t> common_step(const std::vector<SlotSteps>& ranks) {
  if (ranks.empty()) return std::nullopt;
  int64_t common = std::ranges::max(ranks.front());
  for (const SlotSteps& slots : ranks) common = std::min(common, std::ranges::max(slots));
  const bool held = std::ranges::all_of(ranks, [&](const SlotSteps& slots) {
    return std::ranges::find(slots, common) != slots.end();
  });
  if (common < 0 || !held) return std::nullopt;
  return common;
}

NextEpoch Recovery::after(const RankFailure& failure, const std::vector<SlotSteps>& ranks) {
  const auto last = std::exchange(last_, failure);
  if (failure.final) return {};
  const auto step = common_step(ranks);
  if (!step) return {{}, "It began no step that could be gone on with."};
  if (last && !last->killed && !failure.killed && same_place(*last, failure))
    return {{}, "It failed there before."};
  in_a_row_ = failure.step > furthest_ ? 1 : in_a_row_ + 1;
  furthest_ = std::max(furthest_, failure.step);
  if (in_a_row_ == kMaxInARow) return {{}, "It was the third failure without a step in between."};
  return {step, ""};
}

}  // namespace penstock
