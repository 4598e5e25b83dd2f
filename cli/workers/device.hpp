// The device that workers compute on, as the flags of `execute` and `profile` say.
#pragma once

#include <string>
#include <vector>

#include "launch/worker_protocol.hpp"

namespace penstock::cli {

/// Whether the machine has the device only its workers can tell. Throws InputError.
void check_device(const std::string& device, int ranks_per_device);

std::vector<WorkerTask> with_device(std::vector<WorkerTask> tasks, const std::string& device,
                                    int ranks_per_device);

}  // namespace penstock::cli
