// What a worker process does to itself before it computes.
#pragma once

namespace penstock {

/// Pins the process to its share of the allowed cores, takes the batch scheduling policy, and gives
/// LibTorch as many threads as the share has cores, at least one. Before the Gloo device is made,
/// whose thread inherits the cores. Returns the number of threads.
int settle_process(int local_rank, int local_size);

}  // namespace penstock
