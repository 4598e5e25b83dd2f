// Supervisors of a run that a launcher has started, one for each of its processes. That of process
// 0 leads, or the next (election.cpp): it learns what becomes of all ranks, decides, and the others
// do as they are told, in the order in which it tells them. They tell it, {tell: NAME, …}:
//   ranks   {ranks, machine}   first: those that it watches, none where it is a spare; the first
//                              process of its machine
//   failed  {failure}          one of them has
//   views   {views}            what they do, where that has changed
//   slots   {slots}            a snapshot that is to be saved is complete
//   ended   {slots, copies, answered}   all of them have: it does nothing by itself before it is
//                              told
//   answered {answered}        of its script, so many in all
//   asked   {number}           a spare has got that signal
//   signal  {number, overdue}  that ends the run at once; a step took too long after it
//   checked {damaged}          those snapshots are, and given up
//   written {step, files, problem}   its part of a checkpoint
//   given   {number, problem}  the snapshots that it was to give
// It tells them:
//   crew    {addresses, machines, assignment}   of all, once they have come
//   stop    {}                 kill the ranks
//   standstill {rank, for_s, lost}   all ranks wait: kill this one; the message that is lost
//   check   {step}             the snapshots before it
//   give    {number, step, copies}   snapshots: [[rank, process, rank that goes on with it], …]
//   lost    {process}          that one is: should the leader be, too, it does not lead
//   go_on   {step, path, plan, assignment, crew, answered}   a new epoch, from snapshots or from
//                              that checkpoint, with the plan of before or that one
//   answered {answered}        so many, by the ranks of all
//   port    {port}             of the store of the epoch, at process 0
//   save    {step, ranks}      as parts of a checkpoint: [rank, rank that it stands for], …
//   saved   {step}             that snapshot may be overwritten
//   end     {status, message, place}
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "cli/workers/workers.hpp"

namespace penstock::cli {

using Json = nlohmann::json;

namespace {

/// [[rank, steps, unsaved], …].
Json slots_json(const std::map<int, RankSlots>& ranks) {
  Json all = Json::array();
  for (const auto& [rank, slots] : ranks) all.push_back({rank, slots.steps, slots.unsaved});
  return all;
}

void take_slots(const Json& all, std::map<int, RankSlots>& ranks) {
  for (const Json& one : all) {
    RankSlots& slots = ranks[one.at(0)];
    one.at(1).get_to(slots.steps);
    one.at(2).get_to(slots.unsaved);
  }
}

/// [[rank, step, position, kind, peer], …].
Json views_json(const std::map<int, RankView>& views) {
  Json all = Json::array();
  for (const auto& [rank, view] : views) {
    all.push_back({rank, view.place.step, view.place.position, static_cast<int>(view.activity.kind),
                   view.activity.peer});
  }
  return all;
}

void take_views(const Json& all, std::map<int, RankView>& views) {
  views.clear();
  for (const Json& one : all) {
    const auto kind = static_cast<Activity::Kind>(one.at(3).get<int>());
    views[one.at(0)] = {{one.at(1), one.at(2)}, {kind, one.at(4)}};
  }
}

}  // namespace

/// Does another supervisor lead, and know this one?
bool Workers::is_led() const { return fleet_ && fleet_->has_joined() && !fleet_->leads(); }
bool Workers::leads() const { return fleet_ && fleet_->leads(); }

/// Tells the supervisors of a run that survives how they find each other.
void Workers::found_fleet() {
  const WorkerTask& task = workers_.front().task;
  process_ = task.process;
  processes_ = task.processes;
  machines_[process_] = task.process - task.local_rank;
  if (!recovery_ || !launched_ || task.processes == 1) return;
  fleet_.emplace(process_);
  for (Worker& worker : workers_) {
    worker.task.copied = options_.peers;
    worker.task.fleet_port = fleet_->address().port;
    worker.task.fleet_token = fleet_->address().token;
  }
}

void Workers::join_fleet(const Json& leader) {
  if (!fleet_) return;
  fleet_->join(leader.get<FleetAddress>());
  tell_ranks();
}

/// To a leader that it has joined.
void Workers::tell_ranks() {
  told_end_ = false;
  told_views_.clear();
  Json ranks = Json::array();
  for (const Worker& worker : workers_)
    if (worker.task.rank >= 0) ranks.push_back(worker.task.rank);
  fleet_->send({{"tell", "ranks"}, {"ranks", ranks}, {"machine", machines_.at(process_)}});
}

/// All have come to the leader: they are told of each other, and ranks may go on.
void Workers::introduce() {
  assignment_[workers_.front().task.rank] = process_;
  for (const auto& [process, member] : members_.all()) {
    machines_[process] = member.machine;
    for (const auto& [rank, slots] : member.ranks) assignment_[rank] = process;
  }
  for (const auto& [process, machine] : machines_) crew_.insert(process);
  fleet_->send({{"tell", "crew"},
                {"addresses", fleet_->addresses()},
                {"machines", machines_},
                {"assignment", assignment_}});
  for (Worker& worker : workers_) write_line(worker, Json::object());
}

void Workers::pass_port(const Json& port) {
  for (Worker& worker : workers_) {
    if (worker.task.store_port == 0 && !worker.task.store_serve)
      write_line(worker, {{"port", port}});
  }
  if (leads()) fleet_->send({{"tell", "port"}, {"port", port}});
}

void Workers::hear(const Listener& listener) {
  fleet_->receive(
      [&](int process, const Json& message) {
        if (leads()) {
          take_report(process, message, listener);
        } else if (process == fleet_->leader()) {
          take_order(message, listener);
        } else {
          take_early(process, message);
        }
      },
      [&](int process) { take_loss(process, listener); },
      [&](int socket, const Json& greeting) { copies_.receive(socket, greeting); });
}

void Workers::take_report(int process, const Json& message, const Listener& listener) {
  Member& member = members_[process];
  if (member.lost) return dismiss(process);
  const std::string name = message.at("tell");
  if (name == "ranks") {
    member.ranks.clear();
    for (const int rank : message.at("ranks")) {
      member.ranks[rank] = {};
      if (!crew_.empty()) assignment_[rank] = process;  // it may have begun a later epoch
    }
    member.machine = message.at("machine");
    member.has_come = true;
    if (killed_) fleet_->send(process, {{"tell", "stop"}});  // it came late
    if (crew_.empty() && all_have_come()) introduce();
  }
  if (name == "slots" || name == "ended") take_slots(message.at("slots"), member.ranks);
  if (name == "views") take_views(message.at("views"), member.views);
  if (name == "ended") message.at("copies").get_to(member.copies);
  if (name == "ended" || name == "answered") message.at("answered").get_to(member.answered);
  if (name == "ended") member.ended = true;
  if (name == "failed") note(parse_failure(message.at("failure")));
  if (name == "asked" && !interrupted_) take_signal(message.at("number"), listener);
  if (name == "signal") end_by(message.at("number"), message.at("overdue"));
  if (name == "checked") member.damaged = message.at("damaged").get<std::vector<DamagedSlot>>();
  if (name == "written") take_part(process, message);
  if (name == "given") take_given(process, message.at("number"), message.at("problem"));
}

/// Orders behind the word on the next epoch are for that epoch's workers.
void Workers::take_order(const Json& message, const Listener& listener) {
  if (order_) return later_.push_back(message);
  const std::string name = message.at("tell");
  if (name == "crew") {
    for (const auto& [known, address] : message.at("addresses").get<std::map<int, FleetAddress>>())
      if (known != 0) fleet_->learn(known, address);  // which it has told itself
    machines_ = message.at("machines").get<std::map<int, int>>();
    assignment_ = message.at("assignment").get<Assignment>();
    for (const auto& [known, machine] : machines_) crew_.insert(known);
    left_ = crew_;
  }
  if (name == "lost") dismiss(message.at("process"));
  if (name == "stop") kill_all();
  if (name == "standstill") {
    const Json& lost = message.at("lost");
    end_hung(worker_of(message.at("rank")), {.rank = -1, .for_s = message.at("for_s")},
             lost.is_null() ? std::nullopt : std::optional(LostMessage{lost.at(0), lost.at(1)}));
  }
  if (name == "check")
    fleet_->send({{"tell", "checked"}, {"damaged", give_up_damaged(message.at("step"))}});
  if (name == "port") pass_port(message.at("port"));
  if (name == "give") give(message);
  if (name == "save") begin_part(message, listener);
  if (name == "saved") release(message.at("step"));
  if (name == "answered") answered_by_all(message.at("answered"), listener);
  if (name == "go_on" || name == "end") order_ = message;
}

/// Another leads where the leader is lost, or the run ends; a spare's loss changes nothing yet.
void Workers::take_loss(int process, const Listener& listener) {
  if (!leads()) {
    if (process != fleet_->leader()) return dismiss(process);
    if (order_ && order_->at("tell") == "end") return;
    if (!crew_.empty()) return follow_next();
    leader_is_lost_ = true;
    order_ = untold_end(gone());
    return kill_all();
  }
  Member& member = members_[process];
  if (std::exchange(member.lost, true)) return;
  giving_.processes.erase(process);
  lose_part(process);
  fleet_->send({{"tell", "lost"}, {"process", process}});
  if (member.is_spare() && all_have_come()) {
    const std::string message =
        fmt::format("the penstock of process {}, a spare, is gone", process);
    return listener(0, {{"event", "warning"}, {"message", message}});
  }
  for (const auto& [rank, slots] : member.ranks) lost_.push_back(rank);
  if (lost_.empty()) lost_.push_back(process);
  note_loss();
}

void Workers::note_loss() {
  Failure failure{.text = gone(), .killed = true};
  failure.place.rank = lost_.front();
  failure.place.step = workers_.front().progress.get().step;
  note(failure);
}

/// Once all of its workers have ended, and what they have left has been copied, it waits for what
/// comes next.
void Workers::tell_end() {
  if (!is_led() || told_end_ || any_runs_here() || copier_.step()) return;
  told_end_ = true;
  fleet_->send({{"tell", "ended"},
                {"slots", slots_json(slots_of_own())},
                {"copies", copies_.steps()},
                {"answered", answered_}});
}

void Workers::set_answered(int64_t requests, bool tell) {
  answered_ = requests;
  if (tell && is_led()) fleet_->send({{"tell", "answered"}, {"answered", requests}});
}

/// In a fleet it is the leader that knows.
void Workers::look_for_answers(const Listener& listener) {
  if (is_led() || (fleet_ && !all_have_come())) return;
  const int64_t requests = members_.answered(answered_);
  if (requests <= answered_by_all_) return;
  if (leads()) fleet_->send({{"tell", "answered"}, {"answered", requests}});
  answered_by_all(requests, listener);
}

void Workers::answered_by_all(int64_t requests, const Listener& listener) {
  answered_by_all_ = requests;
  listener(0, {{"event", "answered"}, {"requests", requests}});
}

void Workers::tell_views() {
  if (!is_led()) return;
  const std::map<int, RankView> views = views_of_own();
  if (views == told_views_) return;
  told_views_ = views;
  fleet_->send({{"tell", "views"}, {"views", views_json(views)}});
}

void Workers::tell_standstill(int rank, double for_s, const std::optional<LostMessage>& lost) {
  const Json order{{"tell", "standstill"},
                   {"rank", rank},
                   {"for_s", for_s},
                   {"lost", lost ? Json{lost->from, lost->to} : Json()}};
  fleet_->send(members_.process_of(rank).value(), order);
}

void Workers::tell_slots() {
  if (is_led()) fleet_->send({{"tell", "slots"}, {"slots", slots_json(slots_of_own())}});
}

void Workers::tell_outcome(const std::optional<WorkersFailure>& failure) {
  if (!leads()) return;
  const WorkersFailure told = failure.value_or(WorkersFailure{.status = 0, .message = ""});
  fleet_->send({{"tell", "end"},
                {"status", told.status},
                {"message", told.message},
                {"place", to_json(told.cause)}});
}

/// The outcome as the leader has told it, which also tells people.
std::optional<WorkersFailure> Workers::told_outcome() const {
  WorkersFailure failure{.status = order_->at("status"),
                         .message = order_->at("message"),
                         .cause = parse_error(order_->at("place"))};
  failure.told = failure.status != 0 && order_->value("told", true);
  if (interrupted_) {
    failure.status = 128 + *interrupted_;
    failure.message = fmt::format("ended by SIG{}{}{}", sigabbrev_np(*interrupted_),
                                  failure.message.empty() ? "" : "; ", failure.message);
  }
  return failure.status == 0 ? std::nullopt : std::optional(failure);
}

}  // namespace penstock::cli
