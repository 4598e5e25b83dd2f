#include "cli/launch.hpp"

#include <fmt/format.h>

#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "graph/error.hpp"

namespace penstock::cli {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') {
    throw InputError("environment", fmt::format("RANK is set, but {} is not", name),
                     "torchrun sets both; unset RANK to start all ranks from here.");
  }
  return value;
}

int number(const char* name, int least, int most) {
  const std::string text = variable(name);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw InputError("environment",
                     fmt::format("{}={} is not a number from {} to {}", name, text, least, most),
                     "");
  }
  return value;
}

std::string optional_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

WorkerTask launched_task(const Launcher& launcher) {
  WorkerTask task;
  task.rank = launcher.rank;
  task.world_size = launcher.world_size;
  task.local_rank = launcher.local_rank;
  task.local_size = launcher.local_size;
  task.store_host = launcher.host;
  task.store_port = launcher.port;
  task.store_prefix = launcher.prefix;
  task.store_serve = launcher.rank == 0 && !launcher.hosts_store;
  task.one_machine = launcher.local_size == launcher.world_size;
  return task;
}

}  // namespace

std::optional<Launcher> find_launcher() {
  if (std::getenv("RANK") == nullptr) return std::nullopt;
  Launcher launcher;
  launcher.world_size = number("WORLD_SIZE", 1, INT_MAX);
  launcher.rank = number("RANK", 0, launcher.world_size - 1);
  launcher.local_size = number("LOCAL_WORLD_SIZE", 1, launcher.world_size);
  launcher.local_rank = number("LOCAL_RANK", 0, launcher.local_size - 1);
  launcher.host = variable("MASTER_ADDR");
  launcher.port = number("MASTER_PORT", 1, 65535);
  launcher.hosts_store = optional_variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  launcher.prefix = fmt::format("{}/{}/", optional_variable("TORCHELASTIC_RUN_ID"),
                                optional_variable("TORCHELASTIC_RESTART_COUNT"));
  return launcher;
}

std::vector<WorkerTask> make_tasks(const std::optional<Launcher>& launcher, int ranks,
                                   const std::string& command, const nlohmann::json& arguments) {
  std::vector<WorkerTask> tasks;
  if (launcher) {
    if (launcher->world_size != ranks) {
      throw InputError(
          "WORLD_SIZE",
          fmt::format("is {}, but the plan has {} ranks", launcher->world_size, ranks),
          fmt::format("Start {} processes, or plan for {}.", ranks, launcher->world_size));
    }
    tasks.push_back(launched_task(*launcher));
  } else {
    for (int rank = 0; rank < ranks; ++rank) {
      WorkerTask task;
      task.rank = task.local_rank = rank;
      task.world_size = task.local_size = ranks;
      task.store_serve = rank == 0;
      tasks.push_back(task);
    }
  }
  for (WorkerTask& task : tasks) {
    task.command = command;
    task.arguments = arguments;
  }
  return tasks;
}

}  // namespace penstock::cli
