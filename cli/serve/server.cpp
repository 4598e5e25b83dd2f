#include "cli/serve/server.hpp"

#include <fmt/format.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/output_file.hpp"
#include "cli/serve/feed.hpp"
#include "pipeline/checkpoint/saved.hpp"

namespace penstock::cli {

namespace {

constexpr time_t kFarewell_s = 5;  // for other ranks to learn that a script has ended

/// Lets it be read after that time, or never for 0.
void set_timer(int descriptor, time_t seconds) {
  itimerspec time{};
  time.it_value.tv_sec = seconds;
  if (timerfd_settime(descriptor, 0, &time, nullptr) != 0)
    throw std::system_error(errno, std::generic_category(), "timerfd");
}

/// A descriptor that can be read after that time.
int timer(time_t seconds) {
  const int descriptor = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), "timerfd");
  set_timer(descriptor, seconds);
  return descriptor;
}

}  // namespace

Server::Server(const CheckedRun& checked, const ExecuteTask& task,
               const std::vector<WorkerTask>& tasks, Script& script, const ServerOptions& options)
    : checked_(checked),
      executed_(delay_receives(checked.program)),
      task_(task),
      tasks_(tasks),
      script_(script),
      steps_done_(task.first_step),
      options_(options),
      impatient_(timer(0)) {}

Server::~Server() {
  if (impatient_ >= 0) close(impatient_);
}

int Server::run() {
  const auto name_of_action = [&](int rank, int position) {
    const auto of_pipeline = static_cast<size_t>(checked_.plan.place_of(rank).rank);
    return to_string(executed_.ranks[of_pipeline].at(static_cast<size_t>(position)));
  };
  const auto parts = static_cast<int>(checked_.plan.tensor_parallel);
  workers_.emplace(
      tasks_, name_of_action,
      WorkersOptions{.survive = options_.survive, .program = &executed_, .parts = parts});
  workers_->watch(Script::requests, [&] {
    if (!script_.read([&](const Json& request) { take_request(request); })) script_ended();
  });
  workers_->watch(script_.process(), [&] { script_ended(); });
  workers_->watch(impatient_, [&] { warn_of_slow_script(); });
  const auto failure =
      workers_->run([&](size_t worker, const Json& event) { take_event(worker, event); });
  if (!failure) return 0;
  script_.tell_error(failure->status == 2, failure->message, failure->cause);
  return failure->status;
}

void Server::take_event(size_t worker, const Json& event) {
  const std::string name = event.at("event");
  if (name == "warning") script_.tell(event);
  if (name == "done") take_answer(worker, event);
  if (name == "answered" && held_ && event.at("requests") >= requests_) give_answer();
  if (name == "replaced") begin_epoch(event.at("next_step"), event.at("answered"));
  if (name != "ready" || ++ready_ < tasks_.size()) return;
  if (!told_ready_) tell_ready();
  told_ready_ = true;
  go_on();
}

/// The workers are asked again for what they, or those of other scripts, were at work on. Where a
/// rank has lost more, the last step comes first; no rank begins a snapshot of what it has not
/// answered.
void Server::begin_epoch(int64_t next_step, int64_t answered_by_all) {
  ++restarts_;
  ready_ = answered_ = 0;
  if (held_ && answered_by_all >= requests_) give_answer();
  if (std::exchange(held_, false)) --requests_;
  workers_->set_answered(requests_, /*tell=*/true);
  answer_.reset();
  again_ = next_step < steps_done_;
  wait_for_script();
}

void Server::go_on() {
  if (again_) {
    workers_->send(*last_step_);
  } else if (asked_) {
    workers_->send(*asked_);
  } else {
    next();
  }
}

/// The answer is rank 0's, or that of the only worker, and is given when all have answered: until
/// then they may read the batch, and the ranks of other scripts may have to be asked again. (But
/// for a step, which any rank can do again: its batch stays.)
void Server::take_answer(size_t worker, const Json& event) {
  if (tasks_[worker].launched || tasks_[worker].rank == 0) answer_ = event;
  if (++answered_ < tasks_.size()) return;
  answered_ = 0;
  if (std::exchange(again_, false)) {  // the script has had this answer
    answer_.reset();
    return go_on();
  }
  ++requests_;
  held_ = asked_->at("do") != "step" || answer_->at("steps_done") == steps_done_;
  workers_->set_answered(requests_, /*tell=*/held_);
  if (!held_) give_answer();
}

void Server::give_answer() {
  held_ = false;
  const Json answer = *std::exchange(answer_, std::nullopt);
  const Json request = *std::exchange(asked_, std::nullopt);
  const int64_t before = std::exchange(steps_done_, answer.at("steps_done").get<int64_t>());
  if (request.at("do") == "step" && steps_done_ > before) last_step_ = request;
  tell_done(answer);
  next();
}

/// The timer runs anew while the ranks wait for a request, and only then.
void Server::wait_for_script() {
  if (impatient_ < 0) return;
  set_timer(impatient_, rests() ? options_.patience_s : 0);
}

void Server::warn_of_slow_script() {
  workers_->unwatch(impatient_);
  close(std::exchange(impatient_, -1));
  fmt::print(stderr,
             "warning: {} has asked for nothing for {} s after step {}: the ranks wait for "
             "it\n",
             script_.name(), options_.patience_s, steps_done_);
}

void Server::take_request(const Json& request) {
  waiting_.push_back(request);
  next();
}

void Server::next() {
  wait_for_script();
  while (rests() && !waiting_.empty()) {
    const Json request = waiting_.front();
    waiting_.pop_front();
    if (request.at("do") == "sync") {
      tell_done({{"id", request.at("id")}, {"result", nullptr}});
      continue;
    }
    try {
      ask(for_workers(request));
      wait_for_script();
    } catch (const InputError& error) {
      refuse(request, error.what());
    }
  }
}

/// Do the workers wait for a request?
bool Server::rests() const { return ready_ == tasks_.size() && !asked_ && !again_ && !closing_; }

void Server::ask(const Json& request) {
  closing_ = request.at("do") == "close";
  asked_ = request;
  workers_->send(request);
}

/// The request after the checks for which no worker is needed. Throws InputError.
Server::Json Server::for_workers(const Json& request) const {
  Json checked = request;
  Json& given = checked["given"];
  const std::string what = request.at("do");
  if (what == "step" && !given.at("learning_rate").is_null() &&
      checked_.plan.job.optimizer.learning_rate == 0) {
    throw InputError("step", "the job's learning rate is 0, to which groups have no ratio",
                     "Give the job a `learning_rate`.");
  }
  if (what == "save") {
    given["folder"] = std::filesystem::absolute(given.at("folder").get<std::string>()).string();
    check_writable_folder(given.at("folder").get<std::string>());
  }
  if (what == "load") {
    const auto folder = std::filesystem::absolute(given.at("folder").get<std::string>());
    const IntactCheckpoint found = require_intact(folder);
    check_goes_on(found.path, found.manifest, checked_.plan, checked_.graph.sha256);
    for (const std::string& warning : found.warnings) script_.tell_warning(warning);
    given = {{"checkpoint", found.path.string()}, {"step", found.manifest.step}};
    checked["extra"] = found.manifest.extra;
  }
  return checked;
}

void Server::refuse(const Json& request, const std::string& message) const {
  tell_done({{"id", request.at("id")}, {"refused", message}});
}

void Server::tell_done(Json answer) const {
  answer.update({{"event", "done"}, {"steps_done", steps_done_}, {"restarts", restarts_}});
  script_.tell(answer);
}

void Server::tell_ready() const {
  const Plan& plan = checked_.plan;
  const bool all = !tasks_.front().launched;  // ranks are fed by this script
  const int rank = tasks_.front().rank;
  script_.tell({{"event", "ready"},
                {"rank", all ? 0 : rank},
                {"ranks", plan.all_ranks()},
                {"replica", all ? 0 : plan.place_of(rank).replica},
                {"replicas", all ? 1 : plan.data_parallel},
                {"steps_done", steps_done_},
                {"extra", task_.resume.empty() ? Json() : read_manifest(task_.resume).extra},
                {"batch", task_.batch},
                {"samples", description(checked_, task_.batch)}});
}

/// Under a launcher the other ranks are told, if they ask for something in time.
void Server::script_ended() {
  workers_->unwatch(Script::requests);
  workers_->unwatch(script_.process());
  if (closing_ && ready_ == tasks_.size()) {  // it waits for the end no longer than we do
    workers_->watch(timer(kFarewell_s), [&] { workers_->stop("its script ended"); });
    return;
  }
  if (!tasks_.front().launched || tasks_.front().world_size == 1 || ready_ < tasks_.size())
    return workers_->stop("its script ended");
  waiting_.clear();
  closing_ = true;
  workers_->send({{"id", 0}, {"do", "close"}, {"given", Json::object()}, {"extra", nullptr}});
  workers_->watch(timer(kFarewell_s), [&] { workers_->stop("its script ended"); });
}

}  // namespace penstock::cli
