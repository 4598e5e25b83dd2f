#include "cli/workers/workers.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/workers/onednn_isa.hpp"
#include "cli/workers/process.hpp"

namespace penstock::cli {

using Json = nlohmann::json;
using namespace std::chrono_literals;

namespace {

constexpr auto kGrace = 300ms;  // for the others to say what they saw, which may be the cause
// Under a launcher the only worker asks the other ranks what happened before it ends.
constexpr auto kLaunchedGrace = 3s;

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  return set;
}

std::string worker_program() {
  std::string path = program_folder() + "/penstock-worker";
  if (access(path.c_str(), X_OK) != 0) {
    throw InputError(path, "is not there", "Build Penstock with LibTorch: tools/build does.");
  }
  return path;
}

}  // namespace

Workers::Workers(std::vector<WorkerTask> tasks, ActionName action_name, WorkersOptions options)
    : action_name_(std::move(action_name)), options_(std::move(options)) {
  worker_program();
  signal(SIGPIPE, SIG_IGN);  // a worker that died shows when its output ends
  const sigset_t set = ending_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
  launched_ = !tasks.empty() && tasks.front().launched;
  grace_ = launched_ && !options_.survive ? kLaunchedGrace : Clock::duration(kGrace);
  if (options_.survive) recovery_.emplace();
  if (!tasks.empty()) watch_for_hangs(tasks.front());
  for (WorkerTask& task : tasks) workers_.emplace_back(std::move(task));
  if (recovery_) {
    saved_ = workers_.front().task.arguments.at("first_step");
    last_ = options_.end;
    found_fleet();
  }
  for (Worker& worker : workers_) {
    for (size_t slot = 0; recovery_ && slot < kSlots; ++slot) worker.slots.emplace_back();
    start(worker);
  }
}

Workers::~Workers() {
  for (Worker& worker : workers_) {
    if (worker.process > 0 && !worker.ended) {
      kill(worker.process, SIGKILL);
      collect(worker);
    }
    close_pipes(worker);
  }
  if (signals_ >= 0) close(signals_);
  const sigset_t set = ending_signals();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

void Workers::close_pipes(Life& life) {
  for (int* end : {&life.input, &life.output}) {
    if (*end >= 0) close(std::exchange(*end, -1));
  }
}

void Workers::start(Worker& worker) {
  worker.task.progress = worker.progress.descriptor();
  worker.task.slots.clear();
  for (const SnapshotSlot& slot : worker.slots) worker.task.slots.push_back(slot.descriptor());
  std::vector<int> inherited = worker.task.slots;
  inherited.push_back(worker.task.progress);
  const ChildProcess child = start_child(worker_program(), inherited);
  worker.process = child.process;
  worker.input = child.input;
  worker.output = child.output;
  write_line(worker, to_json(worker.task));
}

void Workers::write_line(Worker& worker, const Json& line) {
  write_all(worker.input, line.dump() + "\n");  // of one that has died its output ends
}

void Workers::watch(int descriptor, std::function<void()> ready) {
  watched_[descriptor] = std::move(ready);
}

void Workers::unwatch(int descriptor) { watched_.erase(descriptor); }

void Workers::send(const Json& line) {
  for (Worker& worker : workers_) {
    if (!worker.ended) write_line(worker, line);
  }
}

void Workers::stop(const std::string& why) {
  if (fleet_) return give_up(why);
  stopped_ = true;
  for (const Worker& worker : workers_) {
    if (!worker.ended) kill(worker.process, SIGKILL);
  }
}

bool Workers::have_rank_0() const {
  return std::ranges::any_of(workers_, [](const Worker& w) { return w.task.rank == 0; });
}

Workers::Worker& Workers::worker_of(int rank) {
  return *std::ranges::find_if(workers_, [&](const Worker& w) { return w.task.rank == rank; });
}

bool Workers::any_runs_here() const {
  return std::ranges::any_of(workers_, [](const Worker& worker) { return !worker.ended; });
}

/// Does any rank, as far as this supervisor has to wait for it?
bool Workers::running() const { return any_runs_here() || any_runs_elsewhere(); }

std::optional<WorkersFailure> Workers::run(const Listener& listener) {
  watch(saver_.descriptor(), [&] { end_saving(listener); });
  watch(giver_.descriptor(), [&] { end_giving(); });
  watch(copier_.descriptor(), [&] { end_copying(listener); });
  if (fleet_) watch(fleet_->descriptor(), [&] { hear(listener); });
  do {
    while (running()) {
      poll_once(listener);
      meet_early(listener);
      begin_saving(listener);
      copy_newest();
      end_stopped();
      end_hung(listener);
      end_step();
      end_survivors();
      look_for_answers(listener);
      tell_end();
    }
  } while (go_on(listener));
  if (is_led()) return told_outcome();
  save_rest(listener);
  const auto found = outcome();
  tell_outcome(found);
  return found;
}

std::optional<WorkersFailure> Workers::outcome() const {
  if (stopped_) return std::nullopt;
  if (interrupted_) {
    std::string message = fmt::format("ended by SIG{}", sigabbrev_np(*interrupted_));
    if (step_ends_by_) message += ", since a step did not end within 5 s of it";
    if (!failed_.empty() && (launched_ || finishing_)) message += "; " + failure().message;
    if (!unsaved_.empty()) message += "; " + unsaved_;
    return WorkersFailure{128 + *interrupted_, message};
  }
  if (!failed_.empty()) return failure();
  if (!unsaved_.empty()) return WorkersFailure{2, unsaved_};
  return std::nullopt;
}

/// Until something is to be looked at again that no descriptor tells.
int Workers::poll_timeout_ms() const {
  if (failed_at_) return 20;
  const int most = recovery_ ? 250 : -1;
  if (!hangs_) return most;
  const auto looks = static_cast<int>(hangs_->interval_s() * 1000);
  return recovery_ ? std::min(looks, most) : looks;
}

void Workers::poll_once(const Listener& listener) {
  std::vector<pollfd> watched{{signals_, POLLIN, 0}};
  std::vector<size_t> indices;
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].ended) continue;
    watched.push_back({workers_[i].output, POLLIN, 0});
    indices.push_back(i);
  }
  const size_t workers_end = watched.size();
  for (const auto& [descriptor, ready] : watched_) watched.push_back({descriptor, POLLIN, 0});
  if (poll(watched.data(), watched.size(), poll_timeout_ms()) <= 0) return;
  if (watched[0].revents != 0) take_signal(listener);
  for (size_t i = 0; i < indices.size(); ++i) {
    if ((watched[i + 1].revents & POLLIN) != 0) read_output(indices[i], listener);
  }
  for (size_t i = 0; i < indices.size(); ++i) {  // what they say comes before that they ended
    const short events = watched[i + 1].revents;
    if ((events & POLLHUP) != 0 && (events & POLLIN) == 0) collect(workers_[indices[i]]);
  }
  for (size_t i = workers_end; i < watched.size(); ++i) {
    const auto found = watched_.find(watched[i].fd);
    if (watched[i].revents == 0 || found == watched_.end()) continue;
    const auto ready = found->second;  // it may end the watch
    ready();
  }
}

void Workers::read_output(size_t index, const Listener& listener) {
  Worker& worker = workers_[index];
  std::array<char, 65536> buffer;
  const ssize_t got = read(worker.output, buffer.data(), buffer.size());
  if (got <= 0) return;
  worker.unread.append(buffer.data(), static_cast<size_t>(got));
  size_t begin = 0;
  for (size_t end; (end = worker.unread.find('\n', begin)) != std::string::npos; begin = end + 1) {
    take_line(index, worker.unread.substr(begin, end - begin), listener);
  }
  worker.unread.erase(0, begin);
}

void Workers::take_line(size_t index, const std::string& line, const Listener& listener) {
  const Json event = Json::parse(line, nullptr, false);
  if (!event.is_object() || !event.contains("event")) return;  // a library wrote to its output
  if (event["event"] == "error") {
    workers_[index].error = parse_error(event);
    note_failure(workers_[index]);
  } else if (event["event"] == "port") {
    pass_port(event.at("port"));
  } else if (event["event"] == "fleet") {
    join_fleet(event);
  } else {
    if (event["event"] == "ready") ++ready_;
    if (event["event"] == "snapshot") told_ = event.at("step");
    if (event["event"] == "snapshot") tell_slots();
    if (event["event"] == "stopped") end_with(event.at("step"));
    listener(index, event);
  }
}

/// The worker's output has ended, so it has or is about to.
void Workers::collect(Worker& worker) {
  int status = 0;
  while (waitpid(worker.process, &status, 0) < 0 && errno == EINTR) {
  }
  worker.ended = status;
  if (status != 0) note_failure(worker);
}

void Workers::end_survivors() {
  if (!failed_at_ || killed_ || is_led()) return;
  if (Clock::now() - *failed_at_ < patience()) return;
  if (leads()) fleet_->send({{"tell", "stop"}});
  kill_all();
}

void Workers::kill_all() {
  killed_ = true;
  for (const Worker& worker : workers_) {
    if (!worker.ended) kill(worker.process, SIGKILL);
  }
}

}  // namespace penstock::cli
