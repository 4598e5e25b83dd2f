// `penstock profile` inside a worker: all ranks measure the same model at the same time.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "backend/communication/communicator.hpp"
#include "backend/device/device.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

struct Request {
  std::string job;      // path of the job file
  std::string partial;  // where what is measured so far is kept, whole after every microbatch size
  ComputeDevice* device = &cpu_device();
  DeviceInfo gpu = {};  // what the profile says of it, where it is one
  int ranks_per_device = 1;
  int64_t lane_bytes = 0;  // that each end of a lane takes of the device beside tensors
  int lanes = 0;           // whose ends there are already
};

/// Told from rank 0: an event as launch/worker_protocol.hpp says. `progress` {what, share} and
/// `warning` {message}.
using Emit = std::function<void(const nlohmann::json&)>;

/// Call it in all ranks, on settled processes with counted memory. What `partial` holds of the same
/// job, model and machine is not measured again. At the end `partial` holds the whole profile.
/// Throws InputError, PeerError.
void run(const Request& request, Communicator& communicator, const Emit& emit);

}  // namespace penstock::profiler
