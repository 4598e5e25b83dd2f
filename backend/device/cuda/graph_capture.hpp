// Stream capture as CUDA graphs.
#pragma once

#include <memory>

#include "backend/device/graph_capture.hpp"

namespace penstock::cuda {

/// Captures the current stream of the current device.
std::unique_ptr<GraphCapture> make_graph_capture();

}  // namespace penstock::cuda
