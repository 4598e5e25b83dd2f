// Writes the checkpoints of a run that survives, from the snapshots of its workers.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "cli/workers/workers.hpp"
#include "launch/supervision/rotation.hpp"
#include "pipeline/checkpoint/saved.hpp"

namespace penstock::cli {

using Json = nlohmann::json;
using namespace std::chrono_literals;

/// Begins to write the next one that is due, unless one is being written; returns whether it does.
bool Workers::begin_saving(const Listener& listener) {
  while (options_.save && !is_led() && !saver_.step()) {
    std::vector<RankSlots> ranks;
    for (const auto& [rank, slots] : slots_of_all()) ranks.push_back(slots);
    const std::optional<int64_t> step = step_to_save(ranks);
    if (!step) return false;
    if (*step > saved_ && begin_saving(*step, holders())) break;
    if (*step > saved_) {  // else it was written before the workers made the step again
      const std::string message =
          fmt::format("the checkpoint after step {} is left out: parts of it are lost", *step);
      listener(0, {{"event", "warning"}, {"message", message}});
    }
    release(*step);
  }
  return saver_.step().has_value();
}

/// Returns whether there are snapshots of all stages before that step.
bool Workers::begin_saving(int64_t step, const HeldByProcess& holders) {
  const std::optional<Parts> parts = parts_of(holders, step);
  if (!parts) return false;
  RankSnapshots snapshots;
  if (const auto own = parts->find(process_); own != parts->end())
    snapshots = snapshots_of(own->second, step);
  saver_.begin(step,
               [this, step, snapshots = std::move(snapshots), others = other_parts(step, *parts)](
                   const std::stop_token& stop) { options_.save(step, snapshots, others, stop); });
  return true;
}

/// This supervisor has those before that step.
RankSnapshots Workers::snapshots_of(const std::map<int, int>& ranks, int64_t step) {
  RankSnapshots snapshots;
  for (const auto& [rank, read] : ranks) {
    if (slots_of_own().contains(read)) {
      const Worker& worker = worker_of(read);
      const size_t slot = slot_with(worker.progress.slots().steps, step).value();
      snapshots[rank] = {&worker.slots[slot], worker.progress.checksum(slot)};
    } else if (const Copies::Copy* const copy = copies_.find(read, step)) {
      snapshots[rank] = {&copy->slot, copy->checksum};
    }
  }
  return snapshots;
}

void Workers::release(int64_t step) {
  saved_ = std::max(saved_, step);
  for (Worker& worker : workers_) {
    if (const auto slot = slot_with(worker.progress.slots().steps, step))
      worker.progress.saved(*slot);
  }
  members_.release(step);
  if (leads()) fleet_->send({{"tell", "saved"}, {"step", step}});
}

/// A run goes on without a checkpoint that cannot be written, unless it is the last.
void Workers::end_saving(const Listener& listener) {
  if (is_led()) return end_part();
  const int64_t step = saver_.step().value();
  const std::string problem = saver_.finish();
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
  if (!may_go_on()) return;  // others may write to the same folder
  while (!ends_at_once() && begin_saving(listener)) await_saving(listener);
  if (!saves_newest()) return;
  const std::optional<int64_t> newest = common_step(states_left(listener).ranks);
  if (newest && *newest <= saved_) return;
  if (!newest && lost_.empty()) return;
  if (!newest || !begin_saving(*newest, holders()))
    unsaved_ = "The latest state is not saved: parts of it are lost.";
  await_saving(listener);
}

/// Is its newest state worth a checkpoint? Not where the same would end the run again.
bool Workers::saves_newest() const {
  if (!options_.save || ends_at_once()) return false;
  return interrupted_ || (!failed_.empty() && !rank_failure(root_cause(failed_)).final);
}

bool Workers::ends_at_once() const { return stopped_ || interrupted_ == SIGINT; }

// A checkpoint that several supervisors write, each from snapshots that it has; without others
// there is one part.

/// A snapshot before that step for each rank of a replica; nothing where nobody has one of a rank.
std::optional<Workers::Parts> Workers::parts_of(const HeldByProcess& holders, int64_t step) const {
  const int ranks = options_.program->rank_count();
  Parts parts;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::optional<Source> source = find_source(holders, rank, step, /*alike=*/ranks);
    if (!source) return std::nullopt;
    parts[source->process][rank] = source->held;
  }
  return parts;
}

OtherParts Workers::other_parts(int64_t step, const Parts& parts) {
  std::map<int, Json> orders;
  for (const auto& [process, ranks] : parts) {
    if (process != process_) orders[process] = {{"tell", "save"}, {"step", step}, {"ranks", ranks}};
  }
  if (orders.empty()) return {};
  pending_.emplace().step = step;
  for (const auto& [process, order] : orders) pending_->processes.insert(process);
  const std::shared_future<CheckpointFiles> all = pending_->all.get_future();
  return {.begin =
              [this, orders = std::move(orders)] {
                for (const auto& [process, order] : orders) fleet_->send(process, order);
              },
          .finish =
              [all](const std::stop_token& stop) {
                while (all.wait_for(20ms) != std::future_status::ready)
                  if (stop.stop_requested()) throw std::runtime_error("the run was ended");
                return all.get();
              }};
}

/// As the leader asks for.
void Workers::begin_part(const Json& order, const Listener& listener) {
  if (saver_.step()) end_saving(listener);  // one that the leader has given up
  const int64_t step = order.at("step");
  const auto ranks = order.at("ranks").get<std::map<int, int>>();
  saver_.begin(step,
               [this, step, snapshots = snapshots_of(ranks, step)](const std::stop_token& stop) {
                 part_ = options_.save_part(step, snapshots, stop);
               });
}

void Workers::end_part() {
  const int64_t step = saver_.step().value();
  const std::string problem = saver_.finish();
  fleet_->send({{"tell", "written"}, {"step", step}, {"files", part_}, {"problem", problem}});
  part_.clear();
}

void Workers::take_part(int process, const Json& message) {
  if (!pending_ || pending_->step != message.at("step") || !pending_->processes.erase(process))
    return;
  const std::string problem = message.at("problem");
  pending_->files.merge(message.at("files").get<CheckpointFiles>());
  if (!problem.empty()) {
    pending_->all.set_exception(std::make_exception_ptr(std::runtime_error(problem)));
  } else if (pending_->processes.empty()) {
    pending_->all.set_value(std::move(pending_->files));
  } else {
    return;
  }
  pending_.reset();
}

void Workers::lose_part(int process) {
  if (!pending_ || !pending_->processes.contains(process)) return;
  pending_->all.set_exception(
      std::make_exception_ptr(std::runtime_error("who was to write a part of it is gone")));
  pending_.reset();
}

}  // namespace penstock::cli
