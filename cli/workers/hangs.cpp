// Looks at ranks that hang (launch/supervision/hangs.hpp), and ends or warns of them.
#include <fmt/format.h>
#include <signal.h>

#include <cstdlib>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "cli/workers/workers.hpp"

namespace penstock::cli {

namespace {

constexpr const char* kVariable = "PENSTOCK_HANG_AFTER";
constexpr double kMost_s = 1e6;

Deadlines deadlines() {
  const char* least = std::getenv(kVariable);
  if (least == nullptr || *least == '\0') return {};
  const double least_s = parse_seconds(least, kVariable);
  if (least_s < 0.1 || least_s > kMost_s)
    throw InputError(kVariable, fmt::format("is {}", least), "Give from 0.1s to 1000000s.");
  return deadlines_from(least_s);
}

}  // namespace

/// Where a GPU computes, the host is ahead of it; NCCL's communicator tells what stalls there.
void Workers::watch_for_hangs(const WorkerTask& task) {
  if (task.device == "cpu") hangs_.emplace(static_cast<size_t>(task.world_size), deadlines());
}

/// A rank that hangs is replaced where the run survives that; else there is a warning, once.
void Workers::end_hung(const Listener& listener) {
  if (!hangs_ || failed_at_ || warned_of_hang_) return;
  tell_views();
  const std::map<int, RankView> seen = views_of_all();
  std::vector<std::optional<RankView>> views(static_cast<size_t>(workers_[0].task.world_size));
  for (const auto& [rank, view] : seen) views.at(static_cast<size_t>(rank)) = view;
  const double now_s = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  const std::optional<Hang> hang = hangs_->look(now_s, views);
  if (!hang) return;
  // In a standstill the rank that waits for a lost message is replaced, or any.
  std::optional<LostMessage> lost;
  if (hang->rank < 0) lost = find_lost_message(seen);
  const int rank = hang->rank >= 0 ? hang->rank : lost ? lost->to : workers_.front().task.rank;
  if (members_.runs(rank)) {
    if (hang->rank < 0) tell_standstill(rank, hang->for_s, lost);  // else its own sees it hang
    return;
  }
  if (recovery_) return end_hung(worker_of(rank), *hang, lost);
  warned_of_hang_ = true;
  const std::string text = describe(*hang, worker_of(rank), lost);
  listener(0, {{"event", "warning"}, {"message", text + "; it seems to hang"}});
}

void Workers::end_hung(Worker& culprit, const Hang& hang, const std::optional<LostMessage>& lost) {
  if (culprit.ended) return;
  culprit.hung = describe(hang, culprit, lost);
  culprit.standstill = hang.rank < 0;
  kill(culprit.process, SIGKILL);
}

std::map<int, RankView> Workers::views_of_own() const {
  std::map<int, RankView> views;
  for (const Worker& worker : workers_) {
    if (worker.task.rank >= 0 && !worker.ended && !worker.stopped_at)
      views[worker.task.rank] = {worker.progress.get(), worker.progress.activity()};
  }
  return views;
}

/// Looks at all ranks, which all wait.
std::optional<LostMessage> Workers::find_lost_message(const std::map<int, RankView>& views) const {
  std::vector<RankView> by_rank;
  for (const auto& [rank, view] : views) by_rank.push_back(view);
  if (options_.program == nullptr) return std::nullopt;
  return lost_message(*options_.program, by_rank, options_.parts);
}

std::string Workers::describe(const Hang& hang, const Worker& culprit,
                              const std::optional<LostMessage>& lost) const {
  const WorkerError place = place_of(culprit);
  const std::string where =
      fmt::format("rank {} (process {}) has been {} for {}", culprit.task.rank, culprit.process,
                  place_in_run(place.step, place.action), format_seconds(hang.for_s));
  if (hang.rank >= 0) return where + " and waits for nobody";
  if (!lost) return where + ", and all ranks wait for each other";
  return fmt::format("{}, and all ranks wait: the message of rank {} to rank {} is lost", where,
                     lost->from, lost->to);
}

}  // namespace penstock::cli
