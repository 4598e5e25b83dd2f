// Signals that end a run of workers: at once, or after the step in progress.
#include <fmt/format.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <utility>

#include "cli/workers/workers.hpp"

namespace penstock::cli {

using namespace std::chrono_literals;

namespace {

// mpirun kills what still runs a second after its SIGTERM.
constexpr auto kLastWords = 600ms;
// Docker does 10 s after it: the rest is for writing a checkpoint.
constexpr auto kStepPatience = 5s;

}  // namespace

void Workers::take_signal(const Listener& listener) {
  signalfd_siginfo info{};
  if (read(signals_, &info, sizeof info) == sizeof info)
    take_signal(static_cast<int>(info.ssi_signo), listener);
}

void Workers::take_signal(int signal, const Listener& listener) {
  // A launcher signals its processes one after the other: where these workers have agreed on their
  // last step for another's signal, this process's first one is no second one.
  if (std::exchange(agreed_before_signal_, false) && signal != SIGINT) {
    interrupted_ = signal;
    return;
  }
  const bool finishes = finishes_step(signal);
  finishing_ = false;
  step_ends_by_.reset();
  const bool at_once = interrupted_ || !launched_ || signal != SIGTERM;
  interrupted_ = signal;
  if (!finishes) {
    failed_at_ = Clock::now() - grace_ + (at_once ? 0ms : kLastWords);
    if (is_led()) fleet_->send({{"tell", "signal"}, {"number", signal}, {"overdue", false}});
    return;
  }
  finishing_ = true;
  if (is_spare()) return fleet_->send({{"tell", "asked"}, {"number", signal}});
  if (options_.save) step_ends_by_ = Clock::now() + kStepPatience;
  for (Worker& worker : workers_) worker.progress.ask_to_stop();
  const std::string message =
      fmt::format("SIG{}: the run saves after this step and ends; a second signal ends {} at once",
                  sigabbrev_np(signal), options_.save ? "the step" : "it");
  for (size_t i = 0; i < workers_.size(); ++i)
    if (workers_[i].task.rank == 0) listener(i, {{"event", "warning"}, {"message", message}});
}

/// Before the first step there is nothing to save.
bool Workers::finishes_step(int signal) const {
  return options_.on_signal == OnSignal::finish_step && signal != SIGINT && !interrupted_ &&
         (!failed_at_ || recovery_) && (ready_ >= workers_.size() || (is_spare() && is_led()));
}

/// A step that a signal waits for: what came before it can be saved without its workers.
void Workers::end_step() {
  if (!step_ends_by_ || !finishing_ || Clock::now() < *step_ends_by_) return;
  if (is_led()) fleet_->send({{"tell", "signal"}, {"number", *interrupted_}, {"overdue", true}});
  end_by(*interrupted_, /*overdue=*/true);
}

/// At once, by a signal that this process or another has got. `overdue`: a step did not end within
/// its time.
void Workers::end_by(int signal, bool overdue) {
  if (!interrupted_ || !overdue) interrupted_ = signal;
  finishing_ = false;
  if (!overdue) step_ends_by_.reset();
  if (overdue && !step_ends_by_) step_ends_by_ = Clock::now();
  failed_at_ = Clock::now() - grace_;
}

/// The workers have agreed on their last step, which a signal to this process or to another asked
/// for.
void Workers::end_with(int64_t step) {
  agreed_before_signal_ = !interrupted_;
  if (!interrupted_) interrupted_ = SIGTERM;
  last_ = step + 1;
  step_ends_by_.reset();
}

}  // namespace penstock::cli
