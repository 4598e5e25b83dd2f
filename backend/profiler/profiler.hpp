// `penstock profile` in a worker: all ranks measure the same model at the same time.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/device/device.hpp"
#include "backend/profiler/sizes.hpp"
#include "graph/sharding/pins.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

struct Request {
  std::string job;      // path of the job file
  std::string partial;  // the file of the measurements so far, complete after every microbatch size
  bool quick = false;   // as the profile says it of itself
  Effort effort = {};
  ComputeDevice* device = &cpu_device();
  DeviceInfo gpu = {};  // its description, where the device is a GPU
  int ranks_per_device = 1;
  int cores = 0;           // that all ranks have together, on one machine; 0: not known
  int64_t lane_bytes = 0;  // of the device beside tensors, for each end of a lane
  int lanes = 0;           // lanes that exist already
  /// Tensor groups of so many parts are measured as well, ascending, completed from `sharding`.
  std::vector<int> tensor_parallel = {};
  sharding::Pins sharding = {};
};

/// Called on rank 0 with an event as launch/worker_protocol.hpp says. `progress` {what, share} and
/// `warning` {message}.
using Emit = std::function<void(const nlohmann::json&)>;

/// Call it on all ranks, in settled processes with counted memory. Measurements of the same job,
/// model and machine that `partial` holds are not repeated. At the end `partial` holds the whole
/// profile. Each graph that a tensor group's ranks run (pipeline/sharding/group_graphs.hpp) is
/// measured as the whole model is, with as much time: its first part, alone. Throws InputError,
/// PeerError.
void run(const Request& request, Communicator& communicator, const Emit& emit);

}  // namespace penstock::profiler
