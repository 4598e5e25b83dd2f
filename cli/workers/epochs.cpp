// Goes on with a run whose worker failed: a new epoch, in which all workers are replaced.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <future>
#include <optional>

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
  if (!recovery_ || failures_ == 0 || stopped_ || (interrupted_ && !finishing_)) return false;
  const Worker& cause = root_cause();
  StatesLeft left = states_left(listener);
  std::optional<SavedState> saved;
  if (left.damaged && !common_step(left.ranks)) {
    await_saving(listener);
    saved = options_.find_saved();
  }
  if (saved) left.saved = saved->step;
  const NextEpoch next = recovery_->after(failure_of(cause), left);
  why_it_ends_ = next.reason;
  if (!next.step) return false;
  if (saver_.step() > next.step) await_saving(listener);  // it reads what would be taken again
  if (ends_at_once()) return false;
  if (next.from_disk) saved_ = saved->step;
  const std::string from = next.from_disk ? fmt::format(", from {}", saved->path) : "";
  const std::string message = fmt::format("{}\n  The run goes on with step {}{}.", describe(cause),
                                          step_number(*next.step), from);
  listener(0, {{"event", "warning"}, {"message", message}});
  for (Worker& worker : workers_) {
    if (next.from_disk) resume_from(worker.task.arguments, *saved);
    worker.task.next_step = next.from_disk ? -1 : *next.step;
    worker.progress.forget_snapshots_after(next.from_disk ? -1 : *next.step);
  }
  listener(0, {{"event", "replaced"}, {"next_step", *next.step}});
  begin_epoch();
  return true;
}

void Workers::begin_epoch() {
  failures_ = 0;
  failed_at_.reset();
  killed_ = false;
  if (hangs_) hangs_->restart();
  for (Worker& worker : workers_) {
    close_pipes(worker);
    static_cast<Life&>(worker) = {};
    worker.progress.set(SharedProgress::Place{});
    worker.progress.set(Activity{});
    start(worker);
  }
}

RankFailure Workers::failure_of(const Worker& cause) const {
  const WorkerError place = place_of(cause);
  RankFailure failed{place.rank, place.step, place.action};
  failed.standstill = cause.standstill;
  failed.killed = !cause.error && cause.hung.empty() && WIFSIGNALED(*cause.ended) &&
                  WTERMSIG(*cause.ended) == SIGKILL;
  failed.final = cause.error && (cause.error->kind == FailureKind::input ||
                                 cause.error->kind == FailureKind::final);
  return failed;
}

/// The snapshots, without damaged ones of the step that the run would go on with.
StatesLeft Workers::states_left(const Listener& listener) {
  for (StatesLeft left;; left.ranks.clear()) {
    for (const Worker& worker : workers_)
      left.ranks.push_back(without_end(worker.progress.slots().steps, options_.end));
    const std::optional<int64_t> step = common_step(left.ranks);
    if (!step) return left;
    std::vector<size_t> slots;              // by worker
    std::vector<std::future<bool>> intact;  // at once: each reads all of a rank's state
    for (size_t i = 0; i < workers_.size(); ++i) {
      const Worker& worker = workers_[i];
      slots.push_back(slot_with(left.ranks[i], *step).value());
      intact.push_back(std::async(std::launch::async, is_intact, std::cref(worker.slots[slots[i]]),
                                  worker.progress.checksum(slots[i])));
    }
    bool all = true;
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (intact[i].get()) continue;
      const size_t slot = slots[i];
      all = false;
      left.damaged = true;
      workers_[i].progress.set_snapshot(slot, -1);
      const std::string message =
          fmt::format("rank {}: its snapshot of the state before step {} is damaged (slot {})",
                      workers_[i].task.rank, step_number(*step), slot);
      listener(0, {{"event", "warning"}, {"message", message}});
    }
    if (all) return left;
  }
}

}  // namespace penstock::cli
