// What a transfer costs the computing of its two ranks: on a CPU the cores that move it, on a GPU
// the multiprocessors that its kernels hold while they wait for their peer, and the memory's
// bandwidth.
#pragma once

#include <ATen/ATen.h>

#include "backend/communication/communicator.hpp"
#include "backend/device/device.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

/// The ranks between which a link is measured.
inline constexpr int sender = 0, receiver = 1;

/// A fixed piece of compute, about a millisecond.
class BusyWork {
 public:
  explicit BusyWork(ComputeDevice& device);
  void run() { at::mm_out(product_, matrix_, matrix_); }

 private:
  at::Tensor matrix_, product_;
};

/// Compute seconds per byte that is moved beside the computing.
struct TransferLoad {
  double sender_s_per_byte = 0, receiver_s_per_byte = 0;
};

/// Of messages from one to the other, while all ranks compute. All ranks call it and get the same
/// result. `idle`: the link without computing. `sure`: what is measured counts even where it is
/// less than its spread. Throws PeerError.
TransferLoad transfer_load(Communicator& communicator, ComputeDevice& device, const LinkCost& idle,
                           bool sure);

}  // namespace penstock::profiler
