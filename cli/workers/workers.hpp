// Starts penstock-worker processes of this machine, listens to them, and never leaves one behind.
//
// A run that survives is a sequence of epochs: where a worker fails, all are replaced, and go on
// from the snapshots that they have left in this process's memory
// (launch/supervision/recovery.hpp). One that is stopped (SIGSTOP) for a second has failed, too,
// and one that hangs (launch/supervision/hangs.hpp), of which other runs only warn. Checkpoints of
// such a run are written here, from snapshots, while it goes on; where it ends early, its newest.
//
// A worker dies with this process (PR_SET_PDEATHSIG), even if that is killed. When one fails, the
// others are ended within two seconds and the root cause is told: the first worker that failed by
// itself, rather than the ones that then lost their peer. Under a launcher there is one worker, and
// it is given a few seconds to find out from the other ranks why it failed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/workers/saver.hpp"
#include "launch/progress.hpp"
#include "launch/supervision/hangs.hpp"
#include "launch/supervision/recovery.hpp"
#include "launch/supervision/slot.hpp"
#include "launch/supervision/slot_checkpoint.hpp"
#include "launch/worker_protocol.hpp"

namespace penstock::cli {

/// The effect of the first SIGTERM or SIGUSR1; SIGINT and a second signal end the workers at once,
/// and a step of a run that survives gets 5 s to end.
enum class OnSignal { end, finish_step };

struct SavedState {
  int64_t step = 0;  // that comes after it
  std::string path;
};

struct WorkersOptions {
  using Save = std::function<void(int64_t step, const std::map<int, RankSnapshot>& snapshots,
                                  const std::stop_token& stop)>;
  OnSignal on_signal = OnSignal::end;
  bool survive = false;  // a failure: the workers are replaced, and go on from their snapshots
  int64_t end = std::numeric_limits<int64_t>::max();  // the step after the run's last
  const Program* program = nullptr;                   // of the ranks, to find a lost message in
  int parts = 1;                                      // ranks of a tensor group, which share it
  /// The last checkpoint of the run, for where snapshots are damaged; nothing where there is none.
  std::function<std::optional<SavedState>()> find_saved = [] { return std::nullopt; };
  /// Writes the checkpoint before a step from these snapshots, by rank, into the workers' folder
  /// for checkpoints. Called in another thread. Empty where the run saves none, or its workers do.
  Save save;
};

/// Why a run of workers ended badly.
struct WorkersFailure {
  int status = 1;  // for the process: 1, 2 for a user's mistake, 128 + signal when interrupted
  std::string message;
  WorkerError cause = {};  // its rank, step and action; of no rank where a signal ended the run
};

class Workers {
 public:
  /// The name of an action by rank and position in its program, for messages.
  using ActionName = std::function<std::string(int rank, int position)>;
  /// The worker's index among the tasks, and the event: a worker's, or {event: replaced,
  /// next_step}, after which all are new and go on with that step.
  using Listener = std::function<void(size_t worker, const nlohmann::json& event)>;

  /// Starts one worker for each task. Throws InputError where penstock-worker is not beside this
  /// program. Where a task's store has no port, the port that worker 0 reports is passed on.
  Workers(std::vector<WorkerTask> tasks, ActionName action_name, WorkersOptions options = {});
  /// Kills those that still run.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Returns when all have ended; what went wrong, if anything did. SIGINT, SIGTERM and SIGUSR1 end
  /// them. Workers that have all begun may be asked to finish their step instead (OnSignal); those
  /// of other processes then agree with them (`stopped`), signalled or not.
  std::optional<WorkersFailure> run(const Listener& listener);

  /// From now on `run` calls `ready` whenever there is something to read from the descriptor.
  void watch(int descriptor, std::function<void()> ready);
  void unwatch(int descriptor);
  /// A line for each worker's standard input.
  void send(const nlohmann::json& line);
  /// Ends them at once, without a failure.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Life {
    pid_t process = -1;
    int input = -1, output = -1;  // our ends of its pipes
    std::string unread;           // an unfinished line
    std::optional<WorkerError> error;
    std::optional<int> ended;                     // its wait status
    size_t order = 0;                             // of the first sign of its failure
    std::optional<Clock::time_point> stopped_at;  // by SIGSTOP, and not continued since
    std::string hung;                             // why it was killed for a hang
    bool standstill = false;                      // in which all ranks waited
  };
  /// All that outlives its processes, and the process of now.
  struct Worker : Life {
    explicit Worker(WorkerTask own) : task(std::move(own)) {}
    WorkerTask task;
    SharedProgress progress;
    std::vector<SnapshotSlot> slots;  // of its snapshots, where the run survives
  };

  void start(Worker& worker);
  void write_line(Worker& worker, const nlohmann::json& line);
  void read_output(size_t index, const Listener& listener);
  void take_line(size_t index, const std::string& line, const Listener& listener);
  void collect(Worker& worker);
  void note_failure(Worker& worker);
  void end_survivors();
  void end_stopped();
  void watch_for_hangs(const std::vector<WorkerTask>& tasks);
  void end_hung(const Listener& listener);
  Worker& culprit_of(const Hang& hang);
  std::optional<LostMessage> find_lost_message() const;
  std::string describe(const Hang& hang, const Worker& culprit) const;
  bool running() const;
  int poll_timeout_ms() const;
  void poll_once(const Listener& listener);
  void take_signal(const Listener& listener);
  bool finishes_step(int signal) const;
  void end_step();
  void end_with(int64_t step);
  static void close_pipes(Life& life);
  static bool lost_peer(const Worker& worker);
  bool cause_is_known() const;
  bool waits_for_cause() const;
  Clock::duration patience() const;
  const Worker& root_cause() const;
  bool go_on(const Listener& listener);
  StatesLeft states_left(const Listener& listener);
  RankFailure failure_of(const Worker& cause) const;
  void begin_epoch();
  bool begin_saving();
  void begin_saving(int64_t step);
  void release(int64_t step);
  void end_saving(const Listener& listener);
  void await_saving(const Listener& listener);
  void save_rest(const Listener& listener);
  bool saves_newest() const;
  bool ends_at_once() const;
  WorkersFailure failure() const;
  WorkerError place_of(const Worker& worker) const;
  std::string describe(const Worker& worker) const;

  std::deque<Worker> workers_;
  std::map<int, std::function<void()>> watched_;  // by descriptor
  ActionName action_name_;
  WorkersOptions options_;
  std::optional<Recovery> recovery_;  // where the run survives
  std::optional<HangWatch> hangs_;    // of ranks on CPUs
  bool warned_of_hang_ = false;
  std::string why_it_ends_;         // where it does not survive a failure
  Saver saver_;                     // of checkpoints, from snapshots
  int64_t saved_ = 0;               // the step after the last one that was written, or tried
  int64_t last_ = 0;                // the step after the run's last
  std::string unsaved_;             // why the last checkpoint is not written
  size_t ready_ = 0;                // workers that have begun, of all epochs
  int signals_ = -1;                // signalfd of those that end the run
  std::optional<int> interrupted_;  // by that signal
  bool finishing_ = false;          // the step, after it
  std::optional<Clock::time_point> step_ends_by_;  // where its state is not lost else
  std::optional<Clock::time_point> failed_at_;
  size_t failures_ = 0;
  bool killed_ = false, stopped_ = false;
  bool launched_ = false;    // by torchrun, srun, mpirun: one worker, which is one of many ranks
  Clock::duration grace_{};  // from the first failure to SIGKILL
};

}  // namespace penstock::cli
