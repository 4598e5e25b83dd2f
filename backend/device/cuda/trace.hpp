// Kernels of the GPU as CUPTI records them.
#pragma once

#include <memory>
#include <string>

#include "backend/device/device.hpp"

namespace penstock::cuda {

/// One per process. Null where CUPTI does not record, with CUPTI's own words in `problem`.
std::unique_ptr<KernelTrace> make_trace(std::string& problem);

}  // namespace penstock::cuda
