// Writes the checkpoints of a run that survives, from the snapshots of its workers.
#include <signal.h>

#include <algorithm>

#include "cli/workers/workers.hpp"
#include "launch/supervision/rotation.hpp"
#include "pipeline/checkpoint/saved.hpp"

namespace penstock::cli {

/// Begins to write the next one that is due, unless one is being written; returns whether it does.
bool Workers::begin_saving() {
  while (options_.save && !saver_.step()) {
    std::vector<RankSlots> ranks;
    for (const Worker& worker : workers_) ranks.push_back(worker.progress.slots());
    const std::optional<int64_t> step = step_to_save(ranks);
    if (!step) return false;
    if (*step > saved_) {
      begin_saving(*step);
    } else {
      release(*step);  // it was written before the workers made the step again
    }
  }
  return saver_.step().has_value();
}

void Workers::begin_saving(int64_t step) {
  std::map<int, RankSnapshot> snapshots;
  for (const Worker& worker : workers_) {
    const auto slot = slot_with(worker.progress.slots().steps, step);
    if (slot) snapshots[worker.task.rank] = {&worker.slots[*slot], worker.progress.checksum(*slot)};
  }
  saver_.begin(step, [this, step, snapshots = std::move(snapshots)](const std::stop_token& stop) {
    options_.save(step, snapshots, stop);
  });
}

void Workers::release(int64_t step) {
  for (Worker& worker : workers_) {
    if (const auto slot = slot_with(worker.progress.slots().steps, step))
      worker.progress.saved(*slot);
  }
}

/// A run goes on without a checkpoint that cannot be written, unless it is the last.
void Workers::end_saving(const Listener& listener) {
  const int64_t step = saver_.step().value();
  const std::string problem = saver_.finish();
  saved_ = step;
  release(step);
  if (problem.empty()) {
    const std::string folder = workers_.front().task.arguments.at("save");
    listener(0, {{"event", "saved"}, {"path", checkpoint_path(folder, step).string()}});
  } else if (step == last_ || !running()) {
    unsaved_ = problem;
  } else {
    listener(0, {{"event", "warning"}, {"message", problem}});
  }
}

void Workers::await_saving(const Listener& listener) {
  while (saver_.step() && !ends_at_once()) poll_once(listener);
}

/// All checkpoints that are due, and the newest state of a run that ends early.
void Workers::save_rest(const Listener& listener) {
  while (!ends_at_once() && begin_saving()) await_saving(listener);
  if (!saves_newest()) return;
  const std::optional<int64_t> newest = common_step(states_left(listener).ranks);
  if (!newest || *newest <= saved_) return;
  begin_saving(*newest);
  await_saving(listener);
}

/// Is its newest state worth a checkpoint? Not where the same would end the run again.
bool Workers::saves_newest() const {
  if (!options_.save || ends_at_once()) return false;
  return interrupted_ || (failures_ > 0 && !failure_of(root_cause()).final);
}

bool Workers::ends_at_once() const { return stopped_ || interrupted_ == SIGINT; }

}  // namespace penstock::cli
