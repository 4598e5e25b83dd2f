#include "cli/workers/worker_options.hpp"

#include "base/error.hpp"

namespace penstock::cli {

void check_workers(const WorkerOptions& options) {
  if (options.device != "cpu" && options.device != "cuda") {
    throw InputError("--device", "workers cannot compute on " + options.device,
                     "Use cpu or cuda; a profile can also be an estimate (--device estimate).");
  }
  if (options.device == "cpu" && options.ranks_per_device != 1) {
    throw InputError("--ranks-per-device", "is for GPUs", "Add --device cuda, or leave it out.");
  }
  if (options.transport != "auto" && options.transport != "gloo") {
    throw InputError("--transport", "'" + options.transport + "' is no transport",
                     "Use auto (memory between ranks of one machine) or gloo (sockets).");
  }
}

std::vector<WorkerTask> with_options(std::vector<WorkerTask> tasks, const WorkerOptions& options) {
  for (WorkerTask& task : tasks) {
    task.device = options.device;
    task.ranks_per_device = options.ranks_per_device;
    task.transport = options.transport;
  }
  return tasks;
}

}  // namespace penstock::cli
