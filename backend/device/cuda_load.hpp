// Loads penstock-cuda.so, and says what stands in the way where that cannot be.
#pragma once

#include <map>
#include <string>

#include "backend/device/cuda_module.hpp"
#include "launch/worker_protocol.hpp"

namespace penstock {

/// The GPU of a rank: local ranks take them in order, `ranks_per_device` on each; or the only one
/// that a launcher lets each of them see.
int cuda_device_of(const CudaMachine& machine, const WorkerTask& task);

/// What the environment must say before CUDA and NCCL are loaded. With several ranks on a GPU each
/// is to NCCL a machine of its own: it refuses two ranks of one machine on one GPU.
std::map<std::string, std::string> cuda_environment(const WorkerTask& task);

/// Throws InputError where the task cannot run on this machine.
void check_cuda(const CudaMachine& machine, const WorkerTask& task);

/// Sets the environment, except what the user has set, and loads the module: before anything else
/// of LibTorch is called, since what then asks for CUDA gets none for good. Throws InputError where
/// the module is not there, or the task cannot run on this machine.
CudaModule& load_cuda(const WorkerTask& task);

}  // namespace penstock
