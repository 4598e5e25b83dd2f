// Counts tensor memory from the start, as a worker does. One thread for each rank: the models are
// tiny, and where other processes have the cores, threads that wait for each other take minutes.
// With PENSTOCK_TEST_DEVICE=cuda it opens the first GPU, for the tests of stages
// (stage/driver.hpp).
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "backend/device/cuda_module.hpp"
#include "backend/device/memory.hpp"
#include "tests/backend/stage/driver.hpp"

namespace {

/// The GPU; null, with a message, where there is none.
std::unique_ptr<penstock::ComputeDevice> open_gpu() {
  const auto build = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../..";
  void* const module = dlopen((build / "penstock-cuda.so").c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (module == nullptr) {
    std::cerr << dlerror() << "\n";
    return nullptr;
  }
  const auto entry = reinterpret_cast<penstock::CudaEntry>(dlsym(module, penstock::kCudaEntry));
  const penstock::CudaMachine machine = (*entry)()->look();
  if (machine.devices > 0) return (*entry)()->open(0);
  std::cerr << "no GPU: " << (machine.driver ? machine.problem : "no libcuda.so.1") << "\n";
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  std::unique_ptr<penstock::ComputeDevice> gpu;
  if (!penstock::test::test_device().is_cpu() && !(gpu = open_gpu())) return 1;
  // Ranks are threads here, and c10d's record of collectives is not safe from several of them.
  setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);
  penstock::memory::count_cpu();
  at::set_num_threads(1);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
