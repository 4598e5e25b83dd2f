// A GPU as the executor sees it.
#pragma once

#include <memory>

#include "backend/device/device.hpp"

namespace penstock::cuda {

/// Makes `index` the device of this process, with a stream of its own: the legacy default stream
/// waits for others.
std::unique_ptr<ComputeDevice> open_device(int index);

}  // namespace penstock::cuda
