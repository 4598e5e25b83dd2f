// All ranks and their snapshots, as the leader of a fleet knows them, and who goes on with those of
// supervisors that are lost.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>

#include "cli/workers/launch.hpp"
#include "cli/workers/workers.hpp"
#include "launch/supervision/rotation.hpp"

namespace penstock::cli {

using Json = nlohmann::json;
using namespace std::chrono_literals;

namespace {

// After a node has failed, the leader knows; whoever gives it a snapshot may know earlier.
constexpr auto kLossIsKnown = 12s;
constexpr auto kPause = 50ms;

/// A snapshot on its way to another supervisor.
struct Given {
  FleetAddress to;
  CopyOf what;
  const SnapshotSlot* slot = nullptr;
};

void send_all(const std::vector<Given>& copies, const std::stop_token& stop) {
  for (const auto& [to, what, slot] : copies) try {
      send_copy(to, what, *slot, stop);
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("The state of rank {} could not be sent to {}: {}.",
                                           what.rank, to.host, error.what()));
    }
}

}  // namespace

bool Workers::any_runs_elsewhere() const { return is_led() ? !order_ : members_.any_runs(); }

bool Workers::all_have_come() const { return members_.count_come() == processes_ - 1; }

/// A word on the supervisors that are lost.
std::string Workers::gone() const {
  const std::string who = leader_is_lost_     ? "process 0"
                          : lost_.size() == 1 ? fmt::format("rank {}", lost_.front())
                                              : fmt::format("ranks {}", fmt::join(lost_, ", "));
  return fmt::format(
      "the penstock of {} is gone: it was killed, its node failed, or the network did", who);
}

/// A word on the supervisors that a leader waits for.
std::string Workers::not_come() const {
  std::set<int> missing = crew_;
  for (int process = 0; crew_.empty() && process < processes_; ++process) missing.insert(process);
  missing.erase(process_);
  for (const auto& [process, member] : members_.all())
    if (member.has_come) missing.erase(process);
  return fmt::format("The penstock of process {} had not come yet.", fmt::join(missing, ", "));
}

std::map<int, RankSlots> Workers::slots_of_own() const {
  std::map<int, RankSlots> slots;
  for (const Worker& worker : workers_)
    if (worker.task.rank >= 0) slots[worker.task.rank] = worker.progress.slots();
  return slots;
}

/// Tells what ranks do, as far as this supervisor knows.
std::map<int, RankView> Workers::views_of_all() const {
  std::map<int, RankView> views = views_of_own();
  views.merge(members_.views());
  return views;
}

/// But of those that are lost.
std::map<int, RankSlots> Workers::slots_of_all() const {
  std::map<int, RankSlots> slots = slots_of_own();
  slots.merge(members_.slots());
  return slots;
}

/// All snapshots that are left. Those that supervisors keep for others are known once all ranks
/// have ended.
HeldByProcess Workers::holders() const {
  HeldByProcess found = members_.holders();
  StatesHeld& own = found[process_];
  for (const auto& [rank, slots] : slots_of_own()) own[rank] = steps_held(slots.steps);
  if (any_runs_here()) return found;
  for (const auto& [rank, steps] : copies_.steps()) own[rank].merge(steps_held(steps));
  return found;
}

/// Gives up those snapshots before that step that are damaged, of all ranks.
std::vector<DamagedSlot> Workers::damaged_anywhere(int64_t step, const Listener& listener) {
  for (auto& [process, member] : members_.all()) member.damaged.reset();
  if (leads()) fleet_->send({{"tell", "check"}, {"step", step}});
  std::vector<DamagedSlot> damaged = give_up_damaged(step);
  for (auto& [process, member] : members_.all()) {
    while (!member.damaged && !member.lost && !ends_at_once()) poll_once(listener);
    for (const DamagedSlot& one : member.damaged.value_or(std::vector<DamagedSlot>())) {
      SlotSteps& steps = one.copy ? member.copies[one.rank] : member.ranks[one.rank].steps;
      std::ranges::replace(steps, step, -1);
      damaged.push_back(one);
    }
  }
  return damaged;
}

std::set<int> Workers::supervisors_left() const {
  std::set<int> left = members_.alive();
  left.insert(process_);
  return left;
}

/// May those that are left begin an epoch? If not, notes why.
bool Workers::may_follow() {
  why_it_ends_.clear();
  if (!fleet_) return true;
  if (!leads())
    why_it_ends_ = "Not all ranks had come yet.";
  else if (!all_have_come())
    why_it_ends_ = not_come();
  else if (!may_go_on())
    why_it_ends_ = "Too few supervisors are left: others may go on.";
  return why_it_ends_.empty();
}

/// The holders of the ranks in the next epoch; nothing, and why, where they are too few.
std::optional<Assignment> Workers::next_assignment(const std::set<int>& alive) {
  if (!fleet_) return Assignment();
  std::optional<Assignment> next = assign(assignment_, alive);
  if (next) return next;
  const bool told = root_cause(failed_).place.rank == lost_.front();
  const bool had_spares = processes_ > workers_.front().task.world_size;
  why_it_ends_ = told ? "" : "Besides, " + gone() + ". ";
  why_it_ends_ += had_spares ? "No spare is left." : "There is no spare to take its place.";
  return {};
}

/// Has those who go on with a rank have its snapshot. False where one is lost meanwhile, or, with
/// the reason, where that fails.
bool Workers::hand_over(const Epoch& epoch, const Listener& listener) {
  const std::set<int> alive = members_.alive();
  const auto is_here = [&](const auto& entry) {
    return !fleet_ || entry.second == process_ || alive.contains(entry.second);
  };
  if (!std::ranges::all_of(epoch.assignment, is_here)) return false;
  if (!fleet_ || epoch.saved) return true;
  const auto wanted = handovers(holders(), epoch.assignment, epoch.step, options_.alike);
  if (!wanted) return false;
  std::map<int, Json> copies;
  for (const auto& [from, held, to, rank] : *wanted) copies[from].push_back({held, to, rank});
  giving_ = {.number = giving_.number + 1};
  for (const auto& [process, what] : copies) {
    const Json order{
        {"tell", "give"}, {"number", giving_.number}, {"step", epoch.step}, {"copies", what}};
    giving_.processes.insert(process);
    if (process == process_) {
      give(order);
    } else {
      fleet_->send(process, order);
    }
  }
  const auto known_by = Clock::now() + kLossIsKnown;
  const auto undisturbed = [&] { return members_.alive() == alive && !ends_at_once(); };
  while (undisturbed() &&
         (!giving_.processes.empty() || (!giving_.problem.empty() && Clock::now() < known_by)))
    poll_once(listener);
  if (undisturbed()) why_it_ends_ = giving_.problem;
  return undisturbed() && giving_.problem.empty();
}

/// Snapshots to others, as the leader asks for. No rank runs.
void Workers::give(const Json& order) {
  if (giver_.step()) end_giving();  // what another loss has made useless
  given_ = order.at("number");
  const int64_t step = order.at("step");
  std::vector<Given> copies;
  for (const auto& [held, to, rank] :
       order.at("copies").get<std::vector<std::tuple<int, int, int>>>()) {
    const RankSnapshot found = snapshots_of({{rank, held}}, step).at(rank);
    copies.push_back({fleet_->addresses().at(to), {rank, step, found.checksum}, found.slot});
  }
  giver_.begin(step, [copies](const std::stop_token& stop) { send_all(copies, stop); });
}

void Workers::end_giving() {
  const std::string problem = giver_.finish();
  if (leads()) return take_given(process_, given_, problem);
  fleet_->send({{"tell", "given"}, {"number", given_}, {"problem", problem}});
}

void Workers::take_given(int process, int number, const std::string& problem) {
  if (number != giving_.number || giving_.processes.erase(process) == 0) return;
  if (giving_.problem.empty()) giving_.problem = problem;
}

/// Its place among the ranks of an epoch, whose store the first of them hosts; false where it has
/// none.
bool Workers::take_place(WorkerTask& task) const {
  const auto own = std::ranges::find(assignment_, process_, &Assignment::value_type::second);
  task.rank = own == assignment_.end() ? kSpare : own->first;
  if (task.rank == kSpare) return false;
  task.command = "execute";
  task.copied = options_.peers && assignment_.size() > 1;
  task.process = task.local_rank = task.local_size = 0;
  for (const auto& [rank, process] : assignment_) {
    const bool here = machines_.at(process) == machines_.at(process_);
    task.process += process < process_ ? 1 : 0;
    task.local_rank += process < process_ && here ? 1 : 0;
    task.local_size += here ? 1 : 0;
  }
  task.processes = task.world_size;
  task.fleet_port = -1;
  const int leader = fleet_->leader();
  if (leader != 0) task.store_host = fleet_->addresses().at(leader).host;
  task.store_port = 0;
  task.store_serve = task.process == 0;
  return true;
}

/// Takes the snapshot that the worker goes on with, where another supervisor has sent it.
void Workers::take_copy(Worker& worker, int64_t next_step) {
  const SlotSteps steps = worker.progress.slots().steps;
  if (next_step < 0 || slot_with(steps, next_step)) return;
  std::optional<Copies::Copy> copy = copies_.take(worker.task.rank, next_step);
  const std::optional<size_t> slot = slot_with(steps, -1);
  if (!copy || !slot) return;
  worker.slots[*slot] = std::move(copy->slot);
  worker.progress.set_snapshot(*slot, next_step, copy->checksum);
}

/// Has the partner of this supervisor keep a copy of its rank's newest snapshot. The rank waits for
/// it before it changes its state in the step after.
void Workers::copy_newest() {
  if (!options_.peers || !fleet_ || is_spare() || copier_.step() || killed_) return;
  give_back_copies();
  Worker& worker = workers_.front();
  const auto partner = partner_of(process_, assignment_, machines_);
  const int64_t step = told_;  // what came before it has been reported
  if (step <= worker.progress.copied() || !partner) return;
  const int rank = worker.task.rank;
  const RankSnapshot found = snapshots_of({{rank, rank}}, step).at(rank);
  const Given given{fleet_->addresses().at(*partner), {rank, step, found.checksum}, found.slot};
  copier_.begin(step, [given, step, &progress = worker.progress](const std::stop_token& stop) {
    try {
      send_all({given}, stop);
      progress.set_copied(step);
    } catch (...) {
      std::this_thread::sleep_for(kPause);  // it is tried again
      throw;
    }
  });
}

/// A partner that is lost is replaced, or the run ends.
void Workers::end_copying(const Listener& listener) {
  const std::string problem = copier_.finish();
  if (problem.empty() || killed_) return uncopied_since_.reset();
  if (!uncopied_since_) uncopied_since_ = Clock::now();
  if (Clock::now() - *uncopied_since_ < kLossIsKnown) return;
  uncopied_since_ = Clock::time_point::max();  // is said once
  listener(0, {{"event", "warning"}, {"message", problem + " The run waits."}});
}

/// Gives back copies of ranks that others keep, once these have them: all ranks have been copied
/// where one is past the first step of an epoch.
void Workers::give_back_copies() {
  if (workers_.front().progress.get().step <= begun_with_) return;
  std::set<int> kept;
  for (const auto& [rank, process] : assignment_)
    if (partner_of(process, assignment_, machines_) == process_) kept.insert(rank);
  copies_.keep_only(kept);
}

}  // namespace penstock::cli
