// A run that has lost supervisors which no spare replaces: it is planned anew for those that are
// left, and goes on from a checkpoint, which any plan does.
#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <future>

#include "cli/workers/workers.hpp"

namespace penstock::cli {

using namespace std::chrono_literals;

/// Nothing, and why the run ends, where there is no such plan; nothing after a signal.
std::optional<SmallerPlan> Workers::plan_anew(const std::set<int>& alive,
                                              const Listener& listener) {
  std::atomic<bool> stop = false;
  auto planning = std::async(std::launch::async, [&] {
    return options_.plan_anew(alive, [&stop] { return stop.load(); });
  });
  while (planning.wait_for(0s) != std::future_status::ready) {
    if (!may_shrink()) stop = true;
    poll_once(listener);
  }
  try {
    SmallerPlan plan = planning.get();
    if (!may_shrink()) return {};
    return plan;
  } catch (const std::exception& error) {
    why_it_ends_ += fmt::format(" The run cannot be planned anew: {}", error.what());
    return {};
  }
}

/// Nothing is left of the plan before: its ranks are others.
void Workers::adopt(const SmallerPlan& plan) {
  if (saver_.step()) saver_.finish();  // a part for a leader that is lost
  Worker& worker = workers_.front();
  const auto adopt = options_.adopt;
  adopt(plan.path, worker.task, options_);
  for (const SnapshotSlot& slot : worker.slots) MappedSlot(slot.descriptor()).clear();
  copies_.keep_only({});
  watch_for_hangs(worker.task);
}

}  // namespace penstock::cli
