// A fixed piece of work that measures how fast this process computes now: repeated through a
// profile, it tells how much the machine drifted meanwhile.
#pragma once

#include "backend/device/device.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock {

/// The median over repetitions of a 384 x 384 x 384 float32 matrix product and of a copy of 16 MiB,
/// with this process's threads; about 50 ms in all. On a GPU, for which those are too short,
/// of 4096 x 4096 x 4096 and 256 MiB. `spread` is the larger relative interquartile
/// range of the two. All ranks run it at the same time.
Probe run_probe(ComputeDevice& device = cpu_device());

}  // namespace penstock
