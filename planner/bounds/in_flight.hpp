// How many microbatches a schedule keeps in flight on each rank: with k, rank r runs F(0..k-1),
// then B(0) F(k) B(1) F(k+1) …, then the remaining B. GPipe: k = M; 1F1B: k = min(M, P - r).
#pragma once

#include <vector>

#include "pipeline/program/program.hpp"

namespace penstock {

/// `k` of each rank if the compute program is of that form, one stage per rank in order and
/// microbatches ascending; empty otherwise.
std::vector<int> in_flight(const Program& compute);

}  // namespace penstock
