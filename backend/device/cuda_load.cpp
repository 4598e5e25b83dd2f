#include "backend/device/cuda_load.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.hpp"

namespace penstock {

namespace {

constexpr const char* kPlace = "--device cuda";
constexpr const char* kCpu = "or use --device cpu.";

std::string version_of(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// Did the launcher give each rank a GPU of its own (srun --gpus-per-task 1)?
bool has_own_gpu(const CudaMachine& machine, const WorkerTask& task) {
  return task.launched && task.ranks_per_device == 1 && machine.chosen && machine.devices == 1;
}

int devices_needed(const WorkerTask& task) {
  return (task.local_size + task.ranks_per_device - 1) / task.ranks_per_device;
}

void* open_module() {
  const auto path =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "penstock-cuda.so";
  if (!std::filesystem::exists(path)) {
    throw InputError(
        kPlace, "is not in this build: there is no " + path.string(),
        fmt::format("Build with -Dcuda=enabled, which says what is missing, {}", kCpu));
  }
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (module != nullptr) return module;
  throw InputError(kPlace, fmt::format("cannot load its module: {}", dlerror()),
                   fmt::format("Build again with tools/build, {}", kCpu));
}

}  // namespace

int cuda_device_of(const CudaMachine& machine, const WorkerTask& task) {
  return has_own_gpu(machine, task) ? 0 : task.local_rank / task.ranks_per_device;
}

std::map<std::string, std::string> cuda_environment(const WorkerTask& task) {
  // Lazy loading of a kernel waits for the device, where a receive may spin. A rank by itself
  // receives nothing; a profile measures the memory of ranks that do.
  const bool lazy = task.world_size == 1 && task.command != "profile";
  std::map<std::string, std::string> variables{
      {"CUDA_MODULE_LOADING", lazy ? "LAZY" : "EAGER"},
      // Streams that share a hardware queue block each other.
      {"CUDA_DEVICE_MAX_CONNECTIONS", "32"},
      // All algorithms of a sum connect at the start, not in the middle of a step.
      {"NCCL_RUNTIME_CONNECT", "0"}};
  if (task.ranks_per_device > 1) {
    variables["NCCL_HOSTID"] = fmt::format("penstock-{}", task.rank);
    variables["NCCL_MNNVL_ENABLE"] = "0";
    if (task.one_machine) {
      variables["NCCL_NET"] = "Socket";
      variables["NCCL_SOCKET_IFNAME"] = "lo";
    }
  }
  return variables;
}

void check_cuda(const CudaMachine& machine, const WorkerTask& task) {
  if (!machine.driver) {
    throw InputError(
        kPlace, "needs NVIDIA's driver, and libcuda.so.1 is not on this machine",
        fmt::format("Install a driver for CUDA {}, {}", version_of(machine.runtime_version), kCpu));
  }
  // A driver of one major version runs all of its minor ones.
  if (machine.driver_version / 1000 < machine.runtime_version / 1000) {
    throw InputError(
        kPlace,
        fmt::format("was built for CUDA {}, and this machine's driver runs CUDA {}",
                    version_of(machine.runtime_version), version_of(machine.driver_version)),
        fmt::format("Install a newer driver, {}", kCpu));
  }
  if (machine.devices == 0) {
    throw InputError(kPlace, fmt::format("finds no GPU ({})", machine.problem),
                     fmt::format("See what nvidia-smi and CUDA_VISIBLE_DEVICES say, {}", kCpu));
  }
  if (machine.devices >= devices_needed(task) || has_own_gpu(machine, task)) return;
  throw InputError(
      kPlace,
      fmt::format("{} ranks with {} on each GPU need {}, and this machine has {}", task.local_size,
                  task.ranks_per_device, devices_needed(task), machine.devices),
      task.command == "profile"
          ? "Give --ranks as many as there are GPUs, or several on each with --ranks-per-device."
          : fmt::format("Plan for fewer ranks, or try it with --ranks-per-device {}.",
                        (task.local_size + machine.devices - 1) / machine.devices));
}

CudaModule& load_cuda(const WorkerTask& task) {
  for (const auto& [name, value] : cuda_environment(task)) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/name == "NCCL_HOSTID");
  }
  const auto entry = reinterpret_cast<CudaEntry>(dlsym(open_module(), kCudaEntry));
  if (entry == nullptr) throw std::runtime_error("penstock-cuda.so is of another build");
  CudaModule& module = *entry();
  check_cuda(module.look(), task);
  return module;
}

}  // namespace penstock
