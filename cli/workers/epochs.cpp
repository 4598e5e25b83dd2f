// Goes on with a run whose worker failed: a new epoch, in which all workers are replaced.
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <optional>
#include <utility>

#include "cli/workers/workers.hpp"
#include "launch/supervision/rotation.hpp"

namespace penstock::cli {

using Json = nlohmann::json;

namespace {

/// The arguments of a run of those steps that has not got to the end before it resumed there.
void resume_from(Json& arguments, const SavedState& saved) {
  const int64_t end =
      arguments.at("first_step").get<int64_t>() + arguments.at("steps").get<int64_t>();
  arguments["first_step"] = saved.step;
  arguments["steps"] = end - saved.step;
  arguments["resume"] = saved.path;
  for (const char* done : {"weights", "dump_gradients"}) arguments[done] = "";
}

/// Leaves out snapshots of the run's end, which no step goes on from.
SlotSteps without_end(SlotSteps steps, int64_t end) {
  std::ranges::replace_if(
      steps, [&](int64_t step) { return step >= end; }, -1);
  return steps;
}

bool is_intact(const SnapshotSlot& slot, uint64_t checksum) { return slot.checksum() == checksum; }

}  // namespace

/// Begins a new epoch, where the run survives what has ended the one before.
bool Workers::go_on(const Listener& listener) {
  const std::optional<Epoch> next = is_led() ? told_epoch() : decide(listener);
  if (!next) return false;
  tell_epoch(*next);
  begin(*next, listener);
  for (const Json& order : std::exchange(later_, {})) take_order(order, listener);
  return true;
}

/// The next epoch; nothing where the run ends.
std::optional<Epoch> Workers::decide(const Listener& listener) {
  if (!recovery_ || failed_.empty() || stopped_ || (interrupted_ && !finishing_)) return {};
  why_it_ends_ = why_ranks_are_missing();
  if (!why_it_ends_.empty()) return {};
  const Failure cause = root_cause(failed_);
  StatesLeft left = states_left(listener);
  std::optional<SavedState> saved;
  if (left.damaged && !common_step(left.ranks)) {
    await_saving(listener);
    saved = options_.find_saved();
  }
  if (saved) left.saved = saved->step;
  const NextEpoch next = recovery_->after(rank_failure(cause), left);
  why_it_ends_ = next.reason;
  if (!next.step) return {};
  if (saver_.step() > next.step) await_saving(listener);  // it reads what would be taken again
  why_it_ends_ = why_ranks_are_missing();                 // one may be lost since
  if (ends_at_once() || !why_it_ends_.empty()) return {};
  if (!next.from_disk) saved.reset();
  if (saved) saved_ = saved->step;
  const std::string from = saved ? fmt::format(", from {}", saved->path) : "";
  const std::string message = fmt::format("{}\n  The run goes on with step {}{}.", cause.text,
                                          step_number(*next.step), from);
  listener(0, {{"event", "warning"}, {"message", message}});
  return Epoch{*next.step, saved};
}

void Workers::begin(const Epoch& epoch, const Listener& listener) {
  listener(0, {{"event", "replaced"}, {"next_step", epoch.step}});
  failed_.clear();
  failed_at_.reset();
  killed_ = false;
  if (hangs_) hangs_->restart();
  for (Worker& worker : workers_) {
    if (epoch.saved) resume_from(worker.task.arguments, *epoch.saved);
    worker.task.next_step = epoch.saved ? -1 : epoch.step;
    worker.progress.forget_snapshots_after(worker.task.next_step);
    if (fleet_) meet_anew(worker.task);
    close_pipes(worker);
    static_cast<Life&>(worker) = {};
    worker.progress.set(SharedProgress::Place{});
    worker.progress.set(Activity{});
    start(worker);
  }
}

/// The snapshots, without damaged ones of the step that the run would go on with.
StatesLeft Workers::states_left(const Listener& listener) {
  for (StatesLeft left;; left.ranks.clear()) {
    for (const auto& [rank, slots] : slots_of_all())
      left.ranks.push_back(without_end(slots.steps, options_.end));
    const std::optional<int64_t> step = common_step(left.ranks);
    if (!step) return left;
    const std::vector<DamagedSlot> damaged = damaged_anywhere(*step, listener);
    if (damaged.empty()) return left;
    left.damaged = true;
    for (const DamagedSlot& one : damaged) {
      const std::string message =
          fmt::format("rank {}: its snapshot of the state before step {} is damaged (slot {})",
                      one.rank, step_number(*step), one.slot);
      listener(0, {{"event", "warning"}, {"message", message}});
    }
  }
}

/// Gives up those snapshots of these workers that are damaged.
std::vector<DamagedSlot> Workers::give_up_damaged(int64_t step) {
  std::vector<std::pair<DamagedSlot, std::future<bool>>> found;  // at once: each reads all of one
  for (const Worker& worker : workers_) {
    const auto slot = slot_with(worker.progress.slots().steps, step);
    if (!slot) continue;
    found.emplace_back(DamagedSlot{worker.task.rank, *slot},
                       std::async(std::launch::async, is_intact, std::cref(worker.slots[*slot]),
                                  worker.progress.checksum(*slot)));
  }
  std::vector<DamagedSlot> damaged;
  for (auto& [one, intact] : found) {
    if (intact.get()) continue;
    damaged.push_back(one);
    worker_of(one.rank).progress.set_snapshot(one.slot, -1);
  }
  return damaged;
}

}  // namespace penstock::cli
