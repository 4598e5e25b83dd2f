// Finds the worker that a run failed at, and how long the others may take to tell.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <ranges>

#include "cli/workers/onednn_isa.hpp"
#include "cli/workers/process.hpp"
#include "cli/workers/workers.hpp"

namespace penstock::cli {

using namespace std::chrono_literals;

namespace {

// A rank that others have lost knows best why; a busy GPU takes seconds to let go of its process.
constexpr auto kLostGrace = 15s;
constexpr auto kMaxStop = 1s;

}  // namespace

/// A worker that is killed here is no cause; one that is may tell more before it ends.
void Workers::note_failure(const Worker& worker) {
  const bool known = std::ranges::any_of(
      failed_, [&](const Failure& failure) { return failure.place.rank == worker.task.rank; });
  if (stopped_ || (killed_ && !known)) return;
  const Failure failure = failure_of(worker);
  note(failure);
  if (is_led()) fleet_->send({{"tell", "failed"}, {"failure", to_json(failure)}});
}

/// Ends the run of several supervisors, and not for this one's workers.
void Workers::give_up(const std::string& why) {
  const Worker& worker = workers_.front();
  Failure failure{.place = place_of(worker), .text = ""};
  failure.place.kind = FailureKind::final;
  failure.text = fmt::format("rank {} failed {}: {}", worker.task.rank,
                             place_in_run(failure.place.step, failure.place.action), why);
  note(failure);
  if (is_led()) fleet_->send({{"tell", "failed"}, {"failure", to_json(failure)}});
}

/// In place of what was known of the rank before, unless that ends the run.
void Workers::note(const Failure& failure) {
  const auto known = std::ranges::find_if(
      failed_, [&](const Failure& other) { return other.place.rank == failure.place.rank; });
  if (known == failed_.end()) {
    failed_.push_back(failure);
  } else if (known->place.kind != FailureKind::final) {
    *known = failure;
  }
  if (!failed_at_) failed_at_ = Clock::now();
}

/// A worker that is stopped holds up all others: a run that survives replaces it.
void Workers::end_stopped() {
  for (Worker& worker : workers_) {
    siginfo_t info{};
    if (!recovery_ || worker.ended ||
        waitid(P_PID, static_cast<id_t>(worker.process), &info, WSTOPPED | WCONTINUED | WNOHANG) !=
            0)
      continue;
    if (info.si_pid != 0) worker.stopped_at.reset();
    if (info.si_pid != 0 && info.si_code == CLD_STOPPED) worker.stopped_at = Clock::now();
    if (worker.stopped_at && Clock::now() - *worker.stopped_at > kMaxStop)
      kill(worker.process, SIGKILL);
  }
}

/// For the others to say what they saw.
Workers::Clock::duration Workers::patience() const {
  if (!interrupted_ && waits_for_cause()) return kLostGrace;
  return recovery_ && cause_is_known() ? Clock::duration(0) : grace_;
}

bool Workers::cause_is_known() const { return !std::ranges::all_of(failed_, lost_peer); }

/// All that is known is that a rank is lost which has not ended yet.
bool Workers::waits_for_cause() const {
  return !cause_is_known() && std::ranges::any_of(failed_, [&](const Failure& failure) {
    return may_still_tell(failure.place.lost);
  });
}

/// Is it a rank, of this supervisor or another, that has not ended? -1: is there one?
bool Workers::may_still_tell(int rank) const {
  const auto ranks = std::views::iota(0, workers_.front().task.world_size);
  if (rank < 0) return std::ranges::any_of(ranks, [&](int one) { return may_still_tell(one); });
  for (const Worker& worker : workers_)
    if (worker.task.rank == rank) return !worker.ended;
  return fleet_ && fleet_->leads() && members_.runs(rank);
}

WorkersFailure Workers::failure() const {
  const Failure& cause = root_cause(failed_);
  std::string message = cause.text;
  for (const std::string& why : {why_it_ends_, unsaved_}) {
    if (!why.empty()) message += "\n  " + why;
  }
  return {cause.place.kind == FailureKind::input ? 2 : 1, message, cause.place};
}

Failure Workers::failure_of(const Worker& worker) const {
  return {.place = place_of(worker),
          .text = describe(worker),
          .killed = !worker.error && worker.hung.empty() && WIFSIGNALED(*worker.ended) &&
                    WTERMSIG(*worker.ended) == SIGKILL,
          .standstill = worker.standstill};
}

/// Its place in the run when it failed.
WorkerError Workers::place_of(const Worker& worker) const {
  if (worker.error) return *worker.error;
  const SharedProgress::Place at = worker.progress.get();
  WorkerError place;
  place.rank = worker.task.rank;
  place.step = at.step;
  if (at.position >= 0) place.action = action_name_(worker.task.rank, at.position);
  return place;
}

std::string Workers::describe(const Worker& worker) const {
  if (worker.error && worker.error->kind == FailureKind::input) return worker.error->message;
  if (!worker.hung.empty()) return worker.hung + ": it was killed";
  const WorkerError place = place_of(worker);
  const std::string where = place_in_run(place.step, place.action);
  const std::string name =
      worker.task.rank < 0 ? "a spare" : fmt::format("rank {}", worker.task.rank);
  if (worker.error) return fmt::format("{} failed {}: {}", name, where, worker.error->message);
  const int status = *worker.ended;
  if (worker.stopped_at && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
    return fmt::format("{} (process {}) was stopped {}, and killed for it", name, worker.process,
                       where);
  }
  std::string text = fmt::format("{} (process {}) ended {}: {}", name, worker.process, where,
                                 describe_wait_status(status));
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
    text += "\n  If nobody did that, the system ran out of memory.";
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGILL) {
    text += fmt::format(
        "\n  The processor refused an instruction that it reports to have. {}=AVX512_CORE_FP16, or "
        "AVX2, keeps oneDNN from using the newest.",
        kOnednnVariable);
  }
  return text;
}

}  // namespace penstock::cli
