// Recordings as CUDA graphs.
#pragma once

#include <memory>

#include "backend/device/recorder.hpp"

namespace penstock::cuda {

/// Records the current stream of the current device.
std::unique_ptr<Recorder> make_recorder();

}  // namespace penstock::cuda
