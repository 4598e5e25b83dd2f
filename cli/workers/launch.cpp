#include "cli/workers/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "cli/workers/workers.hpp"

namespace penstock::cli {

namespace {

constexpr double kPatienceToTell_s = 10;

/// Ranks are the first `ranks` processes.
WorkerTask launched_task(const Launcher& launcher, int rank, int ranks) {
  const int first_here = launcher.rank - launcher.local_rank;
  WorkerTask task;
  task.launched = true;
  task.rank = rank;
  task.process = launcher.rank;
  task.processes = launcher.world_size;
  task.world_size = ranks;
  task.local_rank = launcher.local_rank;
  task.local_size = std::clamp(ranks - first_here, 0, launcher.local_size);
  task.node = launcher.node;
  task.store_host = launcher.host;
  task.store_port = launcher.port;
  task.store_prefix = launcher.prefix;
  task.store_serve = launcher.rank == 0 && !launcher.hosts_store;
  task.one_machine = launcher.local_size == launcher.world_size;
  return task;
}

std::vector<WorkerTask> local_tasks(const std::vector<int>& rank_of_process) {
  const auto processes = static_cast<int>(rank_of_process.size());
  std::vector<WorkerTask> tasks(rank_of_process.size());
  for (int process = 0; process < processes; ++process) {
    WorkerTask& task = tasks[static_cast<size_t>(process)];
    task.rank = rank_of_process[static_cast<size_t>(process)];
    task.process = task.local_rank = process;
    task.processes = task.world_size = task.local_size = processes;
    task.store_serve = process == 0;
  }
  return tasks;
}

void tell_others(const Launcher& launcher, const std::string& message) {
  WorkerTask task = launched_task(launcher, launcher.rank, launcher.world_size);
  task.command = "refuse";
  task.arguments = {{"message", message}};
  task.start_timeout_s = kPatienceToTell_s;
  try {
    Workers workers({task}, [](int, int) { return std::string(); });
    workers.run([](size_t, const nlohmann::json&) {});
  } catch (const InputError&) {  // penstock-worker is not built: the others have none either
  }
}

int count_ranks(const std::vector<int>& rank_of_process) {
  return static_cast<int>(rank_of_process.size() - std::ranges::count(rank_of_process, kSpare));
}

void check_processes(const Launcher& launcher, const std::vector<int>& rank_of_process) {
  const int ranks = count_ranks(rank_of_process);
  check_size(launcher, ranks, static_cast<int>(rank_of_process.size()) - ranks);
}

}  // namespace

std::vector<int> as_numbered(int ranks) {
  std::vector<int> rank_of_process(static_cast<size_t>(ranks));
  std::iota(rank_of_process.begin(), rank_of_process.end(), 0);
  return rank_of_process;
}

std::vector<int> with_spares(std::vector<int> rank_of_process, int64_t spares) {
  rank_of_process.insert(rank_of_process.end(), static_cast<size_t>(spares), kSpare);
  return rank_of_process;
}

void check_size(const Launcher& launcher, int ranks, int spares) {
  if (launcher.world_size == ranks + spares) return;
  const std::string besides = spares > 0 ? fmt::format(" and {} spares are wanted", spares) : "";
  const int left = launcher.world_size - spares;
  const std::string or_plan = left > 0 ? fmt::format(", or plan for {}", left) : "";
  throw InputError(
      launcher.size_variable,
      fmt::format("is {}, but the plan has {} ranks{}", launcher.world_size, ranks, besides),
      fmt::format("Start {} processes with {}{}; or unset {} to start all ranks from here.",
                  ranks + spares, launcher.name, or_plan, launcher.own_variable));
}

std::vector<int> ranks_here(const std::optional<Launcher>& launcher,
                            const std::vector<int>& rank_of_process) {
  if (!launcher) return rank_of_process;
  check_processes(*launcher, rank_of_process);
  const auto first = rank_of_process.begin() + (launcher->rank - launcher->local_rank);
  return {first, first + launcher->local_size};
}

std::vector<WorkerTask> make_tasks(const Launch& launch) {
  std::vector<WorkerTask> tasks;
  if (launch.launcher) {
    check_processes(*launch.launcher, launch.rank_of_process);
    tasks.push_back(launched_task(
        *launch.launcher, launch.rank_of_process[static_cast<size_t>(launch.launcher->rank)],
        count_ranks(launch.rank_of_process)));
  } else {
    tasks = local_tasks(launch.rank_of_process);
  }
  for (WorkerTask& task : tasks) {
    task.command = task.rank == kSpare ? "spare" : launch.command;
    task.arguments = launch.arguments;
    task.facts = launch.facts;
    task.start_timeout_s = launch.start_timeout_s;
  }
  return tasks;
}

bool has_rank_0(const std::vector<WorkerTask>& tasks) {
  return std::ranges::find(tasks, 0, &WorkerTask::rank) != tasks.end();
}

void or_tell_others(const std::optional<Launcher>& launcher, const std::function<void()>& body) {
  try {
    body();
  } catch (const InputError& error) {
    if (launcher && launcher->world_size > 1) tell_others(*launcher, error.what());
    throw;
  }
}

}  // namespace penstock::cli
