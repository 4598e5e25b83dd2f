// The module's entry: CUDA on this machine, and its devices.
#include <dlfcn.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>

#include "backend/device/cuda/call.hpp"
#include "backend/device/cuda/device.hpp"
#include "backend/device/cuda/nccl_api.hpp"
#include "backend/device/cuda_module.hpp"

namespace penstock::cuda {

namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int attribute(cudaDeviceAttr name, int index) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, name, index) == cudaSuccess ? value : 0;
}

class Module : public CudaModule {
 public:
  CudaMachine look() const override {
    CudaMachine machine;
    machine.runtime_version = CUDART_VERSION;
    machine.driver = dlopen("libcuda.so.1", RTLD_NOW) != nullptr;
    if (!machine.driver) return machine;
    cudaDriverGetVersion(&machine.driver_version);
    machine.chosen = std::getenv("CUDA_VISIBLE_DEVICES") != nullptr;
    const cudaError_t found = cudaGetDeviceCount(&machine.devices);
    if (found == cudaSuccess) return machine;
    cudaGetLastError();
    machine.devices = 0;
    machine.problem = cudaGetErrorString(found);
    return machine;
  }

  std::unique_ptr<ComputeDevice> open(int index) override { return open_device(index); }
  std::unique_ptr<NcclApi> nccl() override { return make_nccl_api(); }

  DeviceInfo describe(int index) const override {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index), "the GPU's properties");
    int driver = 0, nccl = 0;
    cudaDriverGetVersion(&driver);
    ncclGetVersion(&nccl);
    DeviceInfo info{.kind = "cuda", .name = properties.name};
    info.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
    info.details = {
        {"clock_mhz", std::to_string(attribute(cudaDevAttrClockRate, index) / 1000)},
        {"memory_clock_mhz", std::to_string(attribute(cudaDevAttrMemoryClockRate, index) / 1000)},
        {"multiprocessors", std::to_string(properties.multiProcessorCount)},
        {"compute_capability",
         std::to_string(properties.major) + "." + std::to_string(properties.minor)},
        {"driver", "CUDA " + version_text(driver)},
        {"cuda", version_text(CUDART_VERSION)},
        {"nccl", std::to_string(nccl)}};
    return info;
  }
};

}  // namespace

}  // namespace penstock::cuda

extern "C" __attribute__((visibility("default"))) penstock::CudaModule* penstock_cuda_module() {
  static penstock::cuda::Module module;
  return &module;
}
