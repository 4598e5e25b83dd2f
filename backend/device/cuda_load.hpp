// Loads penstock-cuda.so, or explains why it cannot be loaded.
#pragma once

#include <map>
#include <string>

#include "backend/device/cuda_module.hpp"
#include "launch/worker_protocol.hpp"

namespace penstock {

/// The GPU of a rank: local ranks take them in order, `ranks_per_device` on each; or the only one
/// that a launcher lets each of them see.
int cuda_device_of(const CudaMachine& machine, const WorkerTask& task);

/// The environment that CUDA and NCCL need before they are loaded. With several ranks on a GPU each
/// is a machine of its own to NCCL, which refuses two ranks of one machine on one GPU.
std::map<std::string, std::string> cuda_environment(const WorkerTask& task);

/// Throws InputError where the task cannot run on this machine.
void check_cuda(const CudaMachine& machine, const WorkerTask& task);

/// Sets the environment, except for what the user has set, and loads the module. Call it before
/// anything else of LibTorch, which remembers that there is no CUDA. Throws InputError where the
/// module is not there, or the task cannot run on this machine.
CudaModule& load_cuda(const WorkerTask& task);

}  // namespace penstock
