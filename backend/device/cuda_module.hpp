// The module penstock-cuda.so: all code that includes or links CUDA. It lies beside penstock-worker
// and is loaded only where a task asks for `cuda`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/communication/nccl/api.hpp"
#include "backend/device/device.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock {

/// CUDA on this machine, as the module finds it.
struct CudaMachine {
  bool driver = false;      // libcuda.so.1 is there
  int driver_version = 0;   // the newest CUDA that the driver runs: 1000 x major + 10 x minor
  int runtime_version = 0;  // the CUDA that the module was built with
  int devices = 0;
  bool chosen = false;  // by CUDA_VISIBLE_DEVICES
  std::string problem;  // CUDA's error where there are none
};

class CudaModule {
 public:
  virtual ~CudaModule() = default;
  /// Never throws.
  virtual CudaMachine look() const = 0;
  /// Makes `index` this process's device, which computes on a stream of its own.
  virtual std::unique_ptr<ComputeDevice> open(int index) = 0;
  /// NCCL for the device that is open.
  virtual std::unique_ptr<NcclApi> nccl() = 0;
  /// Name, memory, clocks and driver, for a profile.
  virtual DeviceInfo describe(int index) const = 0;
};

/// The module's one symbol.
inline constexpr const char* kCudaEntry = "penstock_cuda_module";
using CudaEntry = CudaModule* (*)();

}  // namespace penstock
