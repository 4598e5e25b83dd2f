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
// it is given a few seconds to find out from the other ranks why it failed; but the supervisors of
// a run that survives find each other, and the first that is left decides for all (fleet.cpp). A
// spare has a worker without a rank, which ends once it has found the others' supervisors, and is
// replaced by one of a rank whose supervisor is lost. Where none is left the run may be planned
// anew, for fewer ranks (shrinking.cpp).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/workers/epochs.hpp"
#include "cli/workers/failure.hpp"
#include "cli/workers/supervision.hpp"
#include "launch/progress.hpp"
#include "launch/supervision/copies.hpp"
#include "launch/supervision/fleet.hpp"
#include "launch/supervision/hangs.hpp"
#include "launch/supervision/members.hpp"
#include "launch/supervision/recovery.hpp"
#include "launch/supervision/saver.hpp"
#include "launch/supervision/slot.hpp"
#include "launch/worker_protocol.hpp"

namespace penstock::cli {

class Workers {
 public:
  /// The name of an action by rank and position in its program, for messages.
  using ActionName = std::function<std::string(int rank, int position)>;
  /// The worker's index among the tasks, and the event: a worker's, or {event: replaced,
  /// next_step, answered}, after which all are new and go on with that step, or {event: answered,
  /// requests}: of a script's requests the ranks of all supervisors have answered so many.
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
  /// So many requests of a script have been answered by all of them. `tell`: the supervisors of
  /// the other ranks, which are told in any case before ranks are replaced.
  void set_answered(int64_t requests, bool tell);
  /// Ends them at once: without a failure, unless other supervisors are to be told why.
  void stop(const std::string& why);
  /// Is rank 0, which reports, one of them? A spare may have become it.
  bool have_rank_0() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Life {
    pid_t process = -1;
    int input = -1, output = -1;  // our ends of its pipes
    std::string unread;           // an unfinished line
    std::optional<WorkerError> error;
    std::optional<int> ended;                     // its wait status
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
  /// The parts of a checkpoint that other supervisors write.
  struct PendingParts {
    int64_t step = 0;
    std::set<int> processes;
    CheckpointFiles files;
    std::promise<CheckpointFiles> all;
  };
  /// Snapshots that are under way to those who go on with them.
  struct Giving {
    int number = 0;           // each time another one
    std::set<int> processes;  // that have not done their part
    std::string problem;
  };
  /// By process: the rank that is read, by the rank of the plan that it stands for.
  using Parts = std::map<int, std::map<int, int>>;

  void start(Worker& worker);
  void write_line(Worker& worker, const nlohmann::json& line);
  void read_output(size_t index, const Listener& listener);
  void take_line(size_t index, const std::string& line, const Listener& listener);
  void collect(Worker& worker);
  void note_failure(const Worker& worker);
  void note(const Failure& failure);
  void give_up(const std::string& why);
  void end_survivors();
  void kill_all();
  void end_stopped();
  void watch_for_hangs(const WorkerTask& task);
  void end_hung(const Listener& listener);
  void end_hung(Worker& culprit, const Hang& hang, const std::optional<LostMessage>& lost);
  std::map<int, RankView> views_of_own() const;
  std::optional<LostMessage> find_lost_message(const std::map<int, RankView>& views) const;
  std::string describe(const Hang& hang, const Worker& culprit,
                       const std::optional<LostMessage>& lost) const;
  Worker& worker_of(int rank);
  bool any_runs_here() const;
  bool running() const;
  int poll_timeout_ms() const;
  void poll_once(const Listener& listener);
  void take_signal(const Listener& listener);
  void take_signal(int signal, const Listener& listener);
  bool finishes_step(int signal) const;
  void end_by(int signal, bool overdue);
  void end_step();
  void end_with(int64_t step);
  static void close_pipes(Life& life);
  bool cause_is_known() const;
  bool waits_for_cause() const;
  bool may_still_tell(int rank) const;
  Clock::duration patience() const;
  bool go_on(const Listener& listener);
  std::optional<Epoch> decide(const Listener& listener);
  std::optional<Epoch> next_epoch(Recovery& recovery, const Listener& listener);
  void tell_people(const Epoch& epoch, const Listener& listener) const;
  void begin(const Epoch& epoch, const Listener& listener);
  StatesLeft states_left(const Listener& listener);
  std::vector<DamagedSlot> give_up_damaged(int64_t step);
  Failure failure_of(const Worker& worker) const;

  // For runs with several supervisors (fleet.cpp); without others they do little.
  bool is_led() const;
  bool leads() const;
  void found_fleet();
  void join_fleet(const nlohmann::json& leader);
  void pass_port(const nlohmann::json& port);
  void hear(const Listener& listener);
  void take_report(int process, const nlohmann::json& message, const Listener& listener);
  void take_order(const nlohmann::json& message, const Listener& listener);
  void take_loss(int process, const Listener& listener);
  void introduce();
  void tell_ranks();
  void note_loss();
  void tell_end();
  void look_for_answers(const Listener& listener);
  void answered_by_all(int64_t requests, const Listener& listener);
  void tell_slots();
  void tell_views();
  std::map<int, RankView> views_of_all() const;
  void tell_standstill(int rank, double for_s, const std::optional<LostMessage>& lost);
  bool any_runs_elsewhere() const;
  bool all_have_come() const;
  std::string gone() const;
  std::string not_come() const;
  std::map<int, RankSlots> slots_of_own() const;
  std::map<int, RankSlots> slots_of_all() const;
  HeldByProcess holders() const;
  std::vector<DamagedSlot> damaged_anywhere(int64_t step, const Listener& listener);
  void tell_epoch(const Epoch& epoch);
  std::optional<Epoch> told_epoch() const;
  void tell_outcome(const std::optional<WorkersFailure>& failure);
  std::optional<WorkersFailure> told_outcome() const;

  // For a fleet that has lost its leader (election.cpp).
  bool may_go_on() const;
  void follow_next();
  void lead();
  void meet_early(const Listener& listener);
  void take_early(int process, const nlohmann::json& message);
  void dismiss(int process);

  // Succession: the supervisors that go on where some are lost (succession.cpp).
  bool is_spare() const { return workers_.front().task.rank < 0; }
  std::set<int> supervisors_left() const;
  bool may_follow();
  std::optional<Assignment> next_assignment(const std::set<int>& alive);
  bool hand_over(const Epoch& epoch, const Listener& listener);
  void give(const nlohmann::json& order);
  void end_giving();
  void take_given(int process, int number, const std::string& problem);
  bool take_place(WorkerTask& task) const;
  void take_copy(Worker& worker, int64_t next_step);
  void copy_newest();
  void end_copying(const Listener& listener);
  void give_back_copies();

  // For a run that may be planned anew (shrinking.cpp).
  bool may_shrink() const { return options_.plan_anew && !interrupted_ && !stopped_; }
  std::optional<SmallerPlan> plan_anew(const std::set<int>& alive, const Listener& listener);
  void adopt(const SmallerPlan& plan);

  bool begin_saving(const Listener& listener);
  bool begin_saving(int64_t step, const HeldByProcess& holders);
  void release(int64_t step);
  RankSnapshots snapshots_of(const std::map<int, int>& ranks, int64_t step);
  std::optional<Parts> parts_of(const HeldByProcess& holders, int64_t step) const;
  OtherParts other_parts(int64_t step, const Parts& parts);
  void begin_part(const nlohmann::json& order, const Listener& listener);
  void end_part();
  void take_part(int process, const nlohmann::json& message);
  void lose_part(int process);
  void end_saving(const Listener& listener);
  void await_saving(const Listener& listener);
  void save_rest(const Listener& listener);
  bool saves_newest() const;
  bool ends_at_once() const;
  std::optional<WorkersFailure> outcome() const;
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
  std::string why_it_ends_;            // where it does not survive a failure
  int64_t saved_ = 0;                  // the step after the last one that was written, or tried
  int64_t last_ = 0;                   // the step after the run's last
  std::string unsaved_;                // why the last checkpoint is not written
  size_t ready_ = 0;                   // workers that have begun, of all epochs
  int signals_ = -1;                   // signalfd of those that end the run
  std::optional<int> interrupted_;     // by that signal
  bool finishing_ = false;             // the step, after it
  bool agreed_before_signal_ = false;  // on the last step, as another process got one
  std::optional<Clock::time_point> step_ends_by_;  // where its state is not lost else
  std::optional<Clock::time_point> failed_at_;
  std::vector<Failure> failed_;  // ranks of this epoch, in the order of their first signs
  bool killed_ = false, stopped_ = false;
  std::optional<Fleet> fleet_;   // of several supervisors
  int process_ = 0;              // of these, as the launcher numbers them
  int processes_ = 1;            // of the run, with spares
  Members members_;              // the leader's
  std::vector<int> lost_;        // ranks whose supervisors are, in this epoch
  Assignment assignment_;        // of ranks to supervisors
  std::map<int, int> machines_;  // by process, the first process of its machine
  std::set<int> crew_;           // the supervisors that began this epoch
  std::set<int> left_;           // of these, as one that does not lead knows
  std::vector<std::pair<int, nlohmann::json>> early_;  // reports to one that does not lead
  std::optional<Clock::time_point> come_by_;           // the others, to a new leader
  Copies copies_;                                      // of ranks of other supervisors
  int64_t begun_with_ = -1;                            // the step of this epoch
  int64_t told_ = -1;                                  // the step whose snapshot its rank told last
  Giving giving_;                                      // as this supervisor asked for, which leads
  int given_ = 0;                        // its number, which this supervisor does its part of
  std::optional<PendingParts> pending_;  // of the checkpoint that the leader writes
  CheckpointFiles part_;                 // that this supervisor writes for it
  std::optional<nlohmann::json> order_;  // the leader's, after an epoch
  std::vector<nlohmann::json> later_;    // that came after it
  bool told_end_ = false;                // of the epoch, to the leader
  int64_t answered_ = 0;                 // requests of a script
  int64_t answered_by_all_ = 0;          // as the listener was told last
  std::map<int, RankView> told_views_;   // to the leader
  bool leader_is_lost_ = false;          // before all had come
  Saver saver_;           // of checkpoints, from snapshots; its thread uses what is above
  Saver giver_, copier_;  // of snapshots to other supervisors; likewise
  std::optional<Clock::time_point> uncopied_since_;  // as its partner takes none
  bool launched_ = false;    // by torchrun, srun, mpirun: one worker, a rank of many or a spare
  Clock::duration grace_{};  // from the first failure to SIGKILL
};

}  // namespace penstock::cli
