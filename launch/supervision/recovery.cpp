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

NextEpoch Recovery::after(const RankFailure& failure, const StatesLeft& left) {
  const auto last = std::exchange(last_, failure);
  if (failure.final) return {};
  NextEpoch next{.step = common_step(left.ranks)};
  next.from_disk = !next.step && left.damaged;
  if (next.from_disk) next.step = left.saved;
  if (!next.step) {
    return {.reason = left.damaged
                          ? "Its snapshots are damaged, and there is no checkpoint of it on disk."
                          : "It began no step that could be gone on with."};
  }
  if (last && !last->killed && !failure.killed && same_place(*last, failure))
    return {.reason = "It failed there before."};
  const bool goes_on = failure.step > furthest_;  // steps were done since the last one
  if (last && last->standstill && failure.standstill && !goes_on)
    return {.reason = "All ranks waited before, and were connected anew."};
  in_a_row_ = goes_on ? 1 : in_a_row_ + 1;
  furthest_ = std::max(furthest_, failure.step);
  if (in_a_row_ == kMaxInARow)
    return {.reason = "It was the third failure without a step in between."};
  return next;
}

}  // namespace penstock
