// The cost of a transfer in compute of its two ranks: on a CPU the cores that move it, on a GPU the
// multiprocessors that its kernels hold while they wait for their peer, and memory bandwidth.
#pragma once

#include <ATen/ATen.h>

#include "backend/communication/communicator.hpp"
#include "backend/device/device.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

/// The ranks between which a link is measured.
inline constexpr int kSender = 0, kReceiver = 1;

/// A fixed piece of compute, about a millisecond.
class BusyWork {
 public:
  explicit BusyWork(ComputeDevice& device);
  void run() { at::mm_out(product_, matrix_, matrix_); }

 private:
  at::Tensor matrix_, product_;
};

/// Seconds of compute lost per byte that is moved meanwhile.
struct TransferLoad {
  double sender_s_per_byte = 0, receiver_s_per_byte = 0;
};

/// Measures messages from one rank to the other while all ranks compute. All ranks call it and get
/// the same result. `idle`: the link without computing. `sure`: the result counts even where it is
/// less than its spread. Throws PeerError.
TransferLoad transfer_load(Communicator& communicator, ComputeDevice& device, const LinkCost& idle,
                           bool sure);

}  // namespace penstock::profiler
