// Costs of steps that are replayed as CUDA graphs, from the profile.
#pragma once

#include "pipeline/plan/cuda_graphs.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock {

/// The profile with the times of actions that are replayed: at every microbatch size (`always`),
/// where replaying is tried (worth_capturing) and takes F and B of the whole model less time
/// (`automatic`), or as it is (`never`, and where it has no replays).
///
/// A size at which replays were not measured has those of the largest below it: a recording has
/// the same kernels at every size, so its host takes as long to issue it, and its device as much
/// longer or shorter than without, for the gaps between kernels differ. Each operator has the share
/// of both that it has without.
///
/// Throws InputError for `always` where the profile has no replays.
Profile with_replays(Profile profile, CudaGraphs when);

}  // namespace penstock
