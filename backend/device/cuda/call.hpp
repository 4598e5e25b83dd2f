// Turns failures of CUDA calls into exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace penstock::cuda {

/// Throws std::runtime_error with CUDA's own words, and clears the error.
inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

}  // namespace penstock::cuda
