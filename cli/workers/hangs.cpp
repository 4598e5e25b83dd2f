// Looks at ranks that hang (launch/supervision/hangs.hpp), and ends or warns of them.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "cli/workers/workers.hpp"

namespace penstock::cli {

namespace {

constexpr const char* kVariable = "PENSTOCK_HANG_AFTER";

Deadlines deadlines() {
  const char* least = std::getenv(kVariable);
  if (least == nullptr || *least == '\0') return {};
  const double least_s = parse_seconds(least, kVariable);
  if (least_s < 0.1) throw InputError(kVariable, "is less than 0.1 s", "Give 0.1s or more.");
  return deadlines_from(least_s);
}

}  // namespace

/// Where a GPU computes, the host is ahead of it; NCCL's communicator tells what stalls there.
void Workers::watch_for_hangs(const std::vector<WorkerTask>& tasks) {
  if (tasks.empty() || tasks.front().device != "cpu") return;
  hangs_.emplace(static_cast<size_t>(tasks.front().world_size), deadlines());
}

/// A rank that hangs is replaced where the run survives that; else there is a warning, once.
void Workers::end_hung(const Listener& listener) {
  if (!hangs_ || failed_at_ || warned_of_hang_) return;
  std::vector<std::optional<RankView>> views(static_cast<size_t>(workers_[0].task.world_size));
  for (const Worker& worker : workers_) {
    if (!worker.ended && !worker.stopped_at)
      views.at(static_cast<size_t>(worker.task.rank)) = {worker.progress.get(),
                                                         worker.progress.activity()};
  }
  const double now_s = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  const std::optional<Hang> hang = hangs_->look(now_s, views);
  if (!hang) return;
  Worker& culprit = culprit_of(*hang);
  const std::string text = describe(*hang, culprit);
  if (recovery_) {
    culprit.hung = text;
    culprit.standstill = hang->rank < 0;
    kill(culprit.process, SIGKILL);
    return;
  }
  warned_of_hang_ = true;
  listener(0, {{"event", "warning"}, {"message", text + "; it seems to hang"}});
}

/// In a standstill the rank that waits for a lost message, or any.
Workers::Worker& Workers::culprit_of(const Hang& hang) {
  int rank = hang.rank;
  if (rank < 0) {
    const auto lost = find_lost_message();
    rank = lost ? lost->to : workers_.front().task.rank;
  }
  return *std::ranges::find_if(workers_, [&](const Worker& w) { return w.task.rank == rank; });
}

std::optional<LostMessage> Workers::find_lost_message() const {
  std::vector<RankView> views(workers_.size());
  for (const Worker& worker : workers_)
    views.at(static_cast<size_t>(worker.task.rank)) = {worker.progress.get(),
                                                       worker.progress.activity()};
  if (options_.program == nullptr) return std::nullopt;
  return lost_message(*options_.program, views, options_.parts);
}

std::string Workers::describe(const Hang& hang, const Worker& culprit) const {
  const WorkerError place = place_of(culprit);
  const std::string where =
      fmt::format("rank {} (process {}) has been {} for {}", culprit.task.rank, culprit.process,
                  place_in_run(place.step, place.action), format_seconds(hang.for_s));
  if (hang.rank >= 0) return where + " and waits for nobody";
  const auto lost = find_lost_message();
  if (!lost) return where + ", and all ranks wait for each other";
  return fmt::format("{}, and all ranks wait: the message of rank {} to rank {} is lost", where,
                     lost->from, lost->to);
}

}  // namespace penstock::cli
