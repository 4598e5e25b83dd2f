#include "launch/supervision/members.hpp"

#include <algorithm>

#include "launch/supervision/rotation.hpp"

namespace penstock {

namespace {

bool has_running(const Member& member) { return !member.lost && !member.ended; }

}  // namespace

void forget_snapshots_after(int64_t next_step, RankSlots& slots) {
  for (size_t slot = 0; slot < kSlots; ++slot) {
    if (slots.steps[slot] >= 0 && slots.steps[slot] <= next_step) continue;
    slots.steps[slot] = -1;
    slots.unsaved[slot] = false;
  }
}

int Members::count_come() const {
  return static_cast<int>(
      std::ranges::count_if(all_, [](const auto& entry) { return entry.second.has_come; }));
}

bool Members::any_runs() const {
  return std::ranges::any_of(all_, [](const auto& entry) { return has_running(entry.second); });
}

bool Members::runs(int rank) const {
  return std::ranges::any_of(all_, [&](const auto& entry) {
    return entry.second.ranks.contains(rank) && has_running(entry.second);
  });
}

std::optional<int> Members::process_of(int rank) const {
  const auto found = std::ranges::find_if(
      all_, [&](const auto& entry) { return entry.second.ranks.contains(rank); });
  return found == all_.end() ? std::nullopt : std::optional(found->first);
}

std::set<int> Members::alive() const {
  std::set<int> processes;
  for (const auto& [process, member] : all_)
    if (!member.lost) processes.insert(process);
  return processes;
}

std::map<int, RankView> Members::views() const {
  std::map<int, RankView> found;
  for (const auto& [process, member] : all_)
    if (has_running(member)) found.insert(member.views.begin(), member.views.end());
  return found;
}

int64_t Members::answered(int64_t own) const {
  for (const auto& [process, member] : all_)
    if (!member.lost && !member.is_spare()) own = std::min(own, member.answered);
  return own;
}

std::map<int, RankSlots> Members::slots() const {
  std::map<int, RankSlots> found;
  for (const auto& [process, member] : all_)
    if (!member.lost) found.insert(member.ranks.begin(), member.ranks.end());
  return found;
}

HeldByProcess Members::holders() const {
  HeldByProcess found;
  for (const auto& [process, member] : all_) {
    if (member.lost) continue;
    for (const auto& [rank, slots] : member.ranks) found[process][rank] = steps_held(slots.steps);
    for (const auto& [rank, steps] : member.copies) found[process][rank].merge(steps_held(steps));
  }
  return found;
}

void Members::release(int64_t step) {
  for (auto& [process, member] : all_) {
    for (auto& [rank, slots] : member.ranks)
      if (const auto slot = slot_with(slots.steps, step)) slots.unsaved.at(*slot) = false;
  }
}

void Members::begin(int64_t next_step, const Assignment& assignment) {
  for (auto& [process, member] : all_) {
    member.views.clear();
    member.copies.clear();  // told again at its end
    std::map<int, RankSlots> ranks;
    for (const auto& [rank, owner] : assignment)
      if (owner == process) ranks[rank] = member.ranks[rank];
    member.ranks = std::move(ranks);
    member.ended = member.is_spare();
    for (auto& [rank, slots] : member.ranks) forget_snapshots_after(next_step, slots);
  }
}

}  // namespace penstock
