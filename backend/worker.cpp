#include "backend/worker.hpp"

#include <unistd.h>

#include <iostream>
#include <map>
#include <string>

#include "backend/events.hpp"
#include "backend/execution.hpp"
#include "backend/gloo.hpp"
#include "backend/memory.hpp"
#include "backend/process.hpp"
#include "backend/profiler/profiler.hpp"

namespace penstock {

namespace {

nlohmann::json read_line() {
  std::string line;
  if (!std::getline(std::cin, line)) {
    throw std::runtime_error("penstock-worker is started by penstock, which gives it its task");
  }
  return nlohmann::json::parse(line);
}

/// Hosts the store, or learns where it is.
std::unique_ptr<SharedStore> join_store(const WorkerTask& task) {
  StoreAddress address{task.store_host, task.store_port, task.store_serve, task.store_prefix};
  if (address.port == 0 && !address.serve) address.port = read_line().at("port").get<int>();
  auto store = open_tcp_store(address);
  if (address.serve) emit({{"event", "port"}, {"port", address.port}});
  return store;
}

void execute(const WorkerTask& task) {
  Execution execution(task, join_store(task));
  try {
    execution.run();
  } catch (...) {
    fail(std::current_exception(), execution.place());
  }
}

void profile(const WorkerTask& task) {
  const auto store = join_store(task);
  const auto communicator = make_gloo(*store, task.rank, task.world_size, task.one_machine);
  emit({{"event", "ready"}});
  profiler::run({.job = task.arguments.at("job"), .partial = task.arguments.at("partial")},
                *communicator, emit);
}

const std::map<std::string, void (*)(const WorkerTask&)> kCommands{{"execute", execute},
                                                                   {"profile", profile}};

}  // namespace

void run_worker() {
  WorkerError where;
  try {
    const WorkerTask task = parse_task(read_line());
    where.rank = task.rank;
    settle_process(task.local_rank, task.local_size);
    memory::count_cpu();
    kCommands.at(task.command)(task);
  } catch (...) {
    fail(std::current_exception(), where);
  }
  _exit(0);  // Gloo's threads need no goodbye
}

}  // namespace penstock
