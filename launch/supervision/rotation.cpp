#include "launch/supervision/rotation.hpp"

#include <algorithm>

namespace penstock {

namespace {

size_t newest(const SlotSteps& steps) {
  return static_cast<size_t>(std::ranges::max_element(steps) - steps.begin());
}

/// May its content be lost?
bool is_free(const RankSlots& slots, size_t slot) {
  const bool needed = slots.steps[slot] >= 0 && slot == newest(slots.steps);
  return !needed && !slots.unsaved[slot];
}

}  // namespace

std::optional<size_t> slot_with(const SlotSteps& steps, int64_t next_step) {
  const auto found = std::ranges::find(steps, next_step);
  if (found == steps.end()) return std::nullopt;
  return static_cast<size_t>(found - steps.begin());
}

std::optional<size_t> slot_for_next(const RankSlots& slots) {
  std::optional<size_t> next;
  for (size_t slot = 0; slot < kSlots; ++slot) {
    if (is_free(slots, slot) && (!next || slots.steps[slot] > slots.steps[*next])) next = slot;
  }
  return next;
}

std::vector<size_t> idle_slots(const RankSlots& slots, size_t next) {
  std::vector<size_t> idle;
  for (size_t slot = 0; slot < kSlots; ++slot) {
    if (slot != next && is_free(slots, slot)) idle.push_back(slot);
  }
  return idle;
}

std::optional<int64_t> step_to_save(const std::vector<RankSlots>& ranks) {
  std::optional<int64_t> due;
  for (const RankSlots& rank : ranks) {
    for (size_t slot = 0; slot < kSlots; ++slot) {
      if (rank.unsaved[slot] && rank.steps[slot] >= 0)
        due = std::min(due.value_or(rank.steps[slot]), rank.steps[slot]);
    }
  }
  const bool all_have = std::ranges::all_of(
      ranks, [&](const RankSlots& rank) { return due && std::ranges::max(rank.steps) >= *due; });
  return all_have ? due : std::nullopt;
}

}  // namespace penstock
