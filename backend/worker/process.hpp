// Settings of a worker process before it computes: cores, scheduling policy, threads.
#pragma once

#include "backend/communication/shared_store.hpp"
#include "launch/worker_protocol.hpp"

namespace penstock {

/// Pins the process to its cores (launch/placement.hpp), takes the batch scheduling policy, and
/// gives LibTorch as many threads as it has cores, at least one. The ranks that a launcher started
/// on a machine exchange through the store which cores it left them, so all of them call it. Call
/// it before the Gloo device is made, whose thread inherits the cores. Returns how many
/// cores the ranks of this machine have together, 0 where that is not known. Throws PeerError.
int settle_process(const WorkerTask& task, SharedStore& store);

}  // namespace penstock
