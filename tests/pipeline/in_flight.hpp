// Reads off a program what Schedule::alternates says of a schedule: with k microbatches in flight
// rank r runs F(0..k-1), then B(0) F(k) B(1) F(k+1) …, then the remaining B.
#pragma once

#include <vector>

#include "pipeline/program/program.hpp"

namespace penstock {

/// `k` of each rank if the compute program is of that form, one stage per rank in order,
/// microbatches ascending and no later rank with more; empty otherwise.
std::vector<int> in_flight(const Program& compute);

}  // namespace penstock
