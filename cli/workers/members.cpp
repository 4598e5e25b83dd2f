// The ranks of other supervisors, as the leader of a fleet knows them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/workers/workers.hpp"

namespace penstock::cli {

bool Workers::any_runs_elsewhere() const {
  if (is_led()) return !order_;
  return std::ranges::any_of(
      members_, [](const auto& entry) { return !entry.second.lost && !entry.second.ended; });
}

bool Workers::runs_elsewhere(int rank) const {
  return std::ranges::any_of(members_, [&](const auto& entry) {
    return entry.second.ranks.contains(rank) && !entry.second.lost && !entry.second.ended;
  });
}

bool Workers::all_have_come() const {
  return static_cast<int>(members_.size()) == workers_.front().task.world_size - 1;
}

/// Why no epoch can follow; "" where all ranks can be replaced.
std::string Workers::why_ranks_are_missing() const {
  if (!fleet_) return "";
  if (!leads() || !all_have_come()) return "Not all ranks had come yet.";
  if (lost_.empty()) return "";
  const bool told = root_cause(failed_).place.rank == lost_.front();
  return told ? "Its snapshots are lost with it." : "Besides, " + gone() + ".";
}

/// A word on the supervisors that are lost.
std::string Workers::gone() const {
  const std::string who = leader_is_lost_     ? "process 0"
                          : lost_.size() == 1 ? fmt::format("rank {}", lost_.front())
                                              : fmt::format("ranks {}", fmt::join(lost_, ", "));
  return fmt::format(
      "the penstock of {} is gone: it was killed, its node failed, or the network did", who);
}

std::map<int, RankSlots> Workers::slots_of_own() const {
  std::map<int, RankSlots> slots;
  for (const Worker& worker : workers_) slots[worker.task.rank] = worker.progress.slots();
  return slots;
}

/// Tells what ranks do, as far as this supervisor knows.
std::map<int, RankView> Workers::views_of_all() const {
  std::map<int, RankView> views = views_of_own();
  for (const auto& [process, member] : members_)
    if (!member.lost && !member.ended) views.insert(member.views.begin(), member.views.end());
  return views;
}

/// But of those that are lost.
std::map<int, RankSlots> Workers::slots_of_all() const {
  std::map<int, RankSlots> slots = slots_of_own();
  for (const auto& [process, member] : members_)
    if (!member.lost) slots.insert(member.ranks.begin(), member.ranks.end());
  return slots;
}

/// Gives up those snapshots before that step that are damaged, of all ranks.
std::vector<DamagedSlot> Workers::damaged_anywhere(int64_t step, const Listener& listener) {
  for (auto& [process, member] : members_) member.damaged.reset();
  if (leads()) fleet_->send({{"tell", "check"}, {"step", step}});
  std::vector<DamagedSlot> damaged = give_up_damaged(step);
  for (auto& [process, member] : members_) {
    while (!member.damaged && !member.lost && !ends_at_once()) poll_once(listener);
    for (const DamagedSlot& one : member.damaged.value_or(std::vector<DamagedSlot>())) {
      member.ranks[one.rank].steps.at(one.slot) = -1;
      damaged.push_back(one);
    }
  }
  return damaged;
}

}  // namespace penstock::cli
