// Costs with the compute of a step that was measured: the simulation's error is then of all else,
// of waiting, transfers and sums.
#pragma once

#include <cstdint>
#include <string>

#include "pipeline/program/program.hpp"
#include "pipeline/program/timeline.hpp"
#include "simulator/engine/costs.hpp"

namespace penstock {

/// The costs, but each F, B, I, W and OVERLAP_F_B of the program takes as long as in the timeline:
/// of replicas, in that whose actions took longest in all. What made them longer is part of these
/// times, so cores are not shared and sums take no compute. Throws InputError with place `place`
/// where the timeline lacks one of them.
Costs with_measured_compute(Costs costs, const Program& program, int64_t replicas,
                            const Timeline& timeline, const std::string& place);

}  // namespace penstock
