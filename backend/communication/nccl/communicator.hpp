// Ranks that compute on GPUs: tensors of the device move over NCCL, tensors of the host (losses,
// outputs, barriers) over another communicator.
//
// Invariants (a posted receive is a kernel that spins until its message comes):
// - A lane is made with its first message, in rounds that every rank goes through in one order.
//   From then on nothing connects, allocates or waits in the middle of a step.
// - Nothing makes the host wait for a transfer. `Transfer::wait` makes the computing stream wait,
//   so a tensor that is freed afterwards is not overwritten before it is sent: the allocator reuses
//   memory in stream order. record_stream is not needed.
// - The collectives of a tensor group are kernels of the computing stream, among those of
//   operators, over a communicator of the group's own: they wait for no sum of gradients.
// - A failure aborts everything in flight on this rank, names the peer, and leaves nothing
// spinning.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/communication/nccl/api.hpp"
#include "backend/communication/nccl/rounds.hpp"
#include "backend/communication/shared_store.hpp"

namespace penstock {

struct NcclOptions {
  at::Device device = at::kCPU;  // whose tensors move over NCCL
  int max_ctas = 4;              // of a communicator, which are taken from compute
  int group_ctas = 16;           // of a tensor group's, beside which nothing computes
  double deadline_s = 600;       // for a peer to join a new communicator
  /// Called by all ranks at the same time, after each round of lanes.
  std::function<void()> after_round = {};
  /// Called whenever the host has waited another minute for its GPU, with the lanes in flight.
  std::function<void(const std::string&)> on_stall = {};
};

/// All ranks call it with the same lanes of the run. `api` and `store` outlive the communicator.
/// Throws PeerError, and InputError where a rank has more lanes than a GPU has concurrent streams.
std::unique_ptr<Communicator> make_nccl(NcclApi& api, SharedStore& store,
                                        std::unique_ptr<Communicator> host,
                                        const std::vector<LaneKey>& lanes,
                                        const NcclOptions& options);

}  // namespace penstock
