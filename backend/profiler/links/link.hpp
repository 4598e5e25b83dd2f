// The link between two ranks, measured through the executor's own communicator.
#pragma once

#include "backend/communication/communicator.hpp"
#include "backend/device/device.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

/// Ranks 0 and 1 measure, the others wait; all ranks call it and get the same result. Empty for one
/// rank. On one machine a link, `local`: the receiver waits and copies while the sender goes on
/// computing. Else two: first `gloo`, both ranks idle, with the cost of a transfer in compute time
/// of each of them; then `gloo-busy`, while the sender goes on computing and the receiver waits.
/// One-way times come from CLOCK_MONOTONIC, which the processes of a machine share; without
/// `one_clock` they are round trips by the receiver's clock, less half of the smallest one's.
/// `largest` is the largest message, in bytes; none is measured beyond one of half a second. Throws
/// PeerError.
std::vector<LinkCost> measure_links(Communicator& communicator, int64_t largest,
                                    bool one_clock = true);

/// The same between GPUs, through NCCL's lanes: one link, `nccl`, timed by events around messages
/// that go back and forth without the host, with their cost in the GPUs' compute time. Needs lanes
/// of activations from 0 to 1 and of gradients back.
std::vector<LinkCost> measure_gpu_links(Communicator& communicator, ComputeDevice& device,
                                        int64_t largest);

}  // namespace penstock::profiler
