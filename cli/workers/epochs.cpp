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
StepsHeld without_end(StepsHeld steps, int64_t end) {
  steps.erase(steps.lower_bound(end), steps.end());
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

void Workers::tell_epoch(const Epoch& epoch) {
  if (leads()) {
    fleet_->send({{"tell", "go_on"},
                  {"step", epoch.step},
                  {"path", epoch.saved ? epoch.saved->path : ""},
                  {"plan", epoch.plan ? epoch.plan->path : ""},
                  {"assignment", epoch.assignment},
                  {"crew", epoch.crew},
                  {"answered", epoch.answered}});
  }
  assignment_ = epoch.assignment;
  crew_ = left_ = epoch.crew;
  members_.begin(epoch.newest_snapshot(), assignment_);
  for (auto& [process, member] : members_.all()) member.answered = epoch.answered;
  answered_by_all_ = epoch.answered;
  lost_.clear();
  order_.reset();
  told_end_ = false;
  told_views_.clear();
}

/// The epoch that the leader has announced; nothing where the run ends.
std::optional<Epoch> Workers::told_epoch() const {
  if (order_->at("tell") == "end") return {};
  Epoch epoch{.step = order_->at("step"),
              .saved = {},
              .plan = {},
              .assignment = order_->at("assignment").get<Assignment>(),
              .crew = order_->at("crew").get<std::set<int>>(),
              .answered = order_->at("answered")};
  if (const std::string path = order_->at("path"); !path.empty())
    epoch.saved = SavedState{epoch.step, path};
  if (const std::string path = order_->at("plan"); !path.empty())
    epoch.plan = SmallerPlan{.path = path};
  return epoch;
}

/// The next epoch; nothing where the run ends.
std::optional<Epoch> Workers::decide(const Listener& listener) {
  if (!recovery_ || failed_.empty() || stopped_ || (interrupted_ && !finishing_)) return {};
  while (copier_.step() && !ends_at_once()) poll_once(listener);
  for (;;) {  // until nobody is lost meanwhile
    Recovery recovery = *recovery_;
    std::optional<Epoch> next = next_epoch(recovery, listener);
    if (!next || ends_at_once()) return {};
    const bool ready = hand_over(*next, listener);
    if (ends_at_once() || !why_it_ends_.empty()) return {};
    if (!ready) continue;
    recovery_ = recovery;
    tell_people(*next, listener);
    return next;
  }
}

/// One that its ranks have, or can be given, the state for: with the plan of now, where there are
/// enough for it, else with a smaller one.
std::optional<Epoch> Workers::next_epoch(Recovery& recovery, const Listener& listener) {
  if (!may_follow()) return {};
  const std::set<int> alive = supervisors_left();
  std::optional<Assignment> assignment = next_assignment(alive);
  std::optional<SavedState> saved;
  std::optional<SmallerPlan> plan;
  if (!assignment && may_shrink()) {
    save_rest(listener);  // from a checkpoint any plan goes on
    saved = options_.find_saved();
    if (saved) plan = plan_anew(alive, listener);
    if (plan) assignment = plan->assignment;
  }
  if (!assignment) return {};
  StatesLeft left =
      plan ? StatesLeft{.ranks = {}, .lost = true, .saved = {}} : states_left(listener);
  if (!plan && (left.damaged || left.lost) && !common_step(left.ranks)) {
    await_saving(listener);
    saved = options_.find_saved();
  }
  if (saved && saved->step >= options_.end) {
    why_it_ends_ = fmt::format("All steps are done, and {} has the state after them.", saved->path);
    return {};
  }
  if (saved) left.saved = saved->step;
  const NextEpoch next = recovery.after(rank_failure(root_cause(failed_)), left);
  why_it_ends_ = next.reason;
  if (!next.step) return {};
  if (saver_.step() >= next.step) await_saving(listener);  // it reads what is taken again
  if (!next.from_disk) saved.reset();
  return Epoch{
      *next.step, saved, plan, *assignment, supervisors_left(), members_.answered(answered_)};
}

void Workers::tell_people(const Epoch& epoch, const Listener& listener) const {
  const Failure& cause = root_cause(failed_);
  std::string message = cause.text;
  if (!lost_.empty() && cause.place.rank != lost_.front())
    message += "\n  Besides, " + gone() + ".";
  if (epoch.plan) message += "\n  " + epoch.plan->words;
  for (const auto& [rank, process] : epoch.assignment) {
    if (!epoch.plan && assignment_.at(rank) != process)
      message += fmt::format("\n  Process {}, a spare, takes rank {}.", process, rank);
  }
  if (epoch.saved && !lost_.empty() && (!epoch.plan || !unsaved_.empty() || !options_.save))
    message += "\n  Of its state there is only the last checkpoint.";
  const std::string from = epoch.saved ? ", from " + epoch.saved->path : "";
  message += fmt::format("\n  The run goes on with step {}{}.", step_number(epoch.step), from);
  listener(0, {{"event", "warning"}, {"message", message}});
}

void Workers::begin(const Epoch& epoch, const Listener& listener) {
  listener(0, {{"event", "replaced"}, {"next_step", epoch.step}, {"answered", epoch.answered}});
  if (epoch.plan) adopt(*epoch.plan);
  failed_.clear();
  unsaved_.clear();
  failed_at_.reset();
  killed_ = false;
  if (hangs_) hangs_->restart();
  copies_.forget_after(epoch.newest_snapshot());
  if (epoch.saved) saved_ = epoch.saved->step;
  begun_with_ = epoch.step;
  told_ = epoch.newest_snapshot();
  uncopied_since_.reset();
  for (Worker& worker : workers_) {
    if (epoch.saved) resume_from(worker.task.arguments, *epoch.saved);
    worker.task.next_step = epoch.newest_snapshot();
    worker.progress.forget_snapshots_after(worker.task.next_step);
    close_pipes(worker);
    static_cast<Life&>(worker) = {};
    worker.progress.set(SharedProgress::Place{});
    worker.progress.set(Activity{});
    worker.progress.set_copied(-1);
    const int before = worker.task.rank;
    if (fleet_ && !take_place(worker.task)) {
      worker.ended = 0;  // a spare still
      continue;
    }
    if (worker.task.rank != before) worker.progress.forget_snapshots_after(-1);  // another's
    take_copy(worker, worker.task.next_step);
    start(worker);
  }
}

/// The snapshots, without damaged ones of the step that the run would go on with.
StatesLeft Workers::states_left(const Listener& listener) {
  for (StatesLeft left{.lost = !lost_.empty()};;) {
    left.ranks = steps_of_ranks(holders(), workers_.front().task.world_size, options_.alike);
    for (StepsHeld& steps : left.ranks) steps = without_end(steps, options_.end);
    const std::optional<int64_t> step = common_step(left.ranks);
    if (!step) return left;
    const std::vector<DamagedSlot> damaged = damaged_anywhere(*step, listener);
    if (damaged.empty()) return left;
    left.damaged = true;
    for (const DamagedSlot& one : damaged) {
      const std::string message =
          one.copy ? fmt::format("rank {}: the copy of its state before step {} is damaged",
                                 one.rank, step_number(*step))
                   : fmt::format(
                         "rank {}: its snapshot of the state before step {} is damaged "
                         "(slot {})",
                         one.rank, step_number(*step), one.slot);
      listener(0, {{"event", "warning"}, {"message", message}});
    }
  }
}

/// Gives up those snapshots of these workers, or kept for others, that are damaged.
std::vector<DamagedSlot> Workers::give_up_damaged(int64_t step) {
  std::vector<std::pair<DamagedSlot, std::future<bool>>> found;  // at once: each reads all of one
  const auto check = [&](const DamagedSlot& one, const SnapshotSlot& slot, uint64_t checksum) {
    found.emplace_back(one, std::async(std::launch::async, is_intact, std::cref(slot), checksum));
  };
  for (const Worker& worker : workers_) {
    if (const auto slot = slot_with(worker.progress.slots().steps, step))
      check({worker.task.rank, *slot}, worker.slots[*slot], worker.progress.checksum(*slot));
  }
  for (const auto& [rank, steps] : copies_.steps()) {
    if (const Copies::Copy* const copy = copies_.find(rank, step))
      check({.rank = rank, .copy = true}, copy->slot, copy->checksum);
  }
  std::vector<DamagedSlot> damaged;
  for (auto& [one, intact] : found) {
    if (intact.get()) continue;
    damaged.push_back(one);
    if (one.copy) {
      copies_.forget(one.rank, step);
    } else {
      worker_of(one.rank).progress.set_snapshot(one.slot, -1);
    }
  }
  return damaged;
}

}  // namespace penstock::cli
