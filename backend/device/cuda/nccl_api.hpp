// The real NCCL.
#pragma once

#include <memory>

#include "backend/communication/nccl/api.hpp"

namespace penstock::cuda {

/// NCCL for this process's current device.
std::unique_ptr<NcclApi> make_nccl_api();

}  // namespace penstock::cuda
