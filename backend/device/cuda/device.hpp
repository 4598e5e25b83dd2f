// A GPU as a ComputeDevice.
#pragma once

#include <memory>

#include "backend/device/device.hpp"

namespace penstock::cuda {

/// Makes `index` the device of this process, with a stream of its own: the legacy default stream
/// synchronises with all others.
std::unique_ptr<ComputeDevice> open_device(int index);

}  // namespace penstock::cuda
