#include "launch/supervision/recovery.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace penstock {

namespace {

constexpr int kMaxInARow = 3;

bool same_place(const RankFailure& one, const RankFailure& other) {
  return one.rank == other.rank && one.step == other.step && one.action == other.action;
}

std::string why_none(const StatesLeft& left) {
  if (!left.damaged && !left.lost) return "It began no step that could be gone on with.";
  return fmt::format("Its snapshots are {}, and there is no checkpoint of it on disk.",
                     left.lost ? "lost with it" : "damaged");
}

}  // namespace

StepsHeld steps_held(const SlotSteps& slots) {
  StepsHeld steps(slots.begin(), slots.end());
  steps.erase(-1);
  return steps;
}

std::optional<int64_t> common_step(const std::vector<StepsHeld>& ranks) {
  if (ranks.empty()) return std::nullopt;
  const auto all_have = [&](int64_t step) {
    return std::ranges::all_of(ranks, [&](const StepsHeld& held) { return held.contains(step); });
  };
  const StepsHeld& first = ranks.front();
  const auto found = std::find_if(first.rbegin(), first.rend(), all_have);
  return found == first.rend() ? std::nullopt : std::optional(*found);
}

NextEpoch Recovery::after(const RankFailure& failure, const StatesLeft& left) {
  const auto last = std::exchange(last_, failure);
  if (failure.final) return {};
  NextEpoch next{.step = common_step(left.ranks)};
  next.from_disk = !next.step && (left.damaged || left.lost);
  if (next.from_disk) next.step = left.saved;
  if (!next.step) return {.reason = why_none(left)};
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
