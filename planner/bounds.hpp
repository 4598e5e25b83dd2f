// Lower bounds on the step time, valid for every plan of the space they are asked for.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock {

/// Costs of the units of a chain, per microbatch, in seconds; backward is whole (B).
struct ChainCosts {
  std::vector<double> forward_s, backward_s;   // per unit
  std::vector<double> cut_forward_s, cut_backward_s;  // transfer after unit i, for i < units - 1
};

/// Bounds (1) and (2) for one split, unsplit backward: the larger over ranks of
/// head_r + m (F + B) + tail_r, and one microbatch through all stages with its transfers.
/// `begins[r]` is the first unit of rank r.
double split_lower_bound_s(const ChainCosts& costs, const std::vector<int>& begins, int microbatches);

/// Over all splits into at most `ranks` stages, one per rank: the smallest T for which a greedy
/// cover needs no more ranks. Bisected; the returned end is infeasible or exact.
double chain_lower_bound_s(const ChainCosts& costs, int ranks, int microbatches);

}  // namespace penstock
