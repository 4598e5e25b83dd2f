// The device that workers compute on and how they exchange tensors, as the flags of `execute` and
// `profile` say.
#pragma once

#include <string>
#include <vector>

#include "launch/worker_protocol.hpp"

namespace penstock::cli {

struct WorkerOptions {
  std::string device = "cpu";
  int ranks_per_device = 1;
  std::string transport = "auto";  // or gloo
};

/// Whether the machine has the device only its workers can tell. Throws InputError.
void check_workers(const WorkerOptions& options);

std::vector<WorkerTask> with_options(std::vector<WorkerTask> tasks, const WorkerOptions& options);

}  // namespace penstock::cli
