#include "cli/workers/device.hpp"

#include "base/error.hpp"

namespace penstock::cli {

void check_device(const std::string& device, int ranks_per_device) {
  if (device != "cpu" && device != "cuda") {
    throw InputError("--device", "workers cannot compute on " + device,
                     "Use cpu or cuda; a profile can also be an estimate (--device estimate).");
  }
  if (device == "cpu" && ranks_per_device != 1) {
    throw InputError("--ranks-per-device", "is for GPUs", "Add --device cuda, or leave it out.");
  }
}

std::vector<WorkerTask> with_device(std::vector<WorkerTask> tasks, const std::string& device,
                                    int ranks_per_device) {
  for (WorkerTask& task : tasks) {
    task.device = device;
    task.ranks_per_device = ranks_per_device;
  }
  return tasks;
}

}  // namespace penstock::cli
