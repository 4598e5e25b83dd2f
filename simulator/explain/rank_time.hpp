// The time of each rank by cause, from a timeline alone: predicted or measured, so that the two can
// be compared cause by cause.
//
//   compute     F, B, I, W, OVERLAP_F_B, with what they wait for their host
//   optimizer   OPT
//   reduction   REDUCE_GRAD, while none of these runs
//   transfers   idle, and what the rank waits for has been made and is on its way; or nothing is
//               waited for and a SEND of its own goes on
//   waiting     the rest: for another rank to make a message, at the step's ends, between actions
//
// A message is on its way from the end of the action that makes it, or from the start of its SEND
// where that is earlier, since a measured SEND may only hand it over.
#pragma once

#include <vector>

#include "pipeline/program/timeline.hpp"

namespace penstock {

struct RankTime {
  double compute_s = 0, waiting_s = 0, transfers_s = 0, reduction_s = 0, optimizer_s = 0;

  double total_s() const { return compute_s + waiting_s + transfers_s + reduction_s + optimizer_s; }
};

RankTime operator-(const RankTime& a, const RankTime& b);

/// The times of ranks 0 to `ranks` - 1; each adds up to makespan_s(timeline), to the rounding of
/// its sums. Takes O(n log n).
std::vector<RankTime> rank_times(const Timeline& timeline, int ranks);

/// By rank predicted less measured; each adds up to the step's error.
std::vector<RankTime> errors(const Timeline& predicted, const Timeline& measured, int ranks);

/// The mean over the ranks, at least one; adds up to the step's error as theirs do.
RankTime mean(const std::vector<RankTime>& ranks);

}  // namespace penstock
