// The idle time of each rank, by its causes. The step is simulated once per cause, each time with
// one more thing taken away, and what a rank idles less is what that thing cost it:
//
//   as it is
//   without all-reduces       -> all-reduce, new values of shared parameters among them
//   with free transfers       -> transfers: they take no time, and none waits for a receive
//   issued at once            -> launch: devices do not wait for the hosts that issue their work
//   without recomputation     -> recompute
//   with equal stages         -> imbalance: each stage costs the mean of all
//   what is left              -> ramp: filling and emptying the pipeline
//
// So the parts of a rank add up to its idle time (to the rounding of six sums). A part is below 0
// where a rank idles more once the thing is gone: the busiest rank gains idle time from equal
// stages. In the sum over all ranks, which people read, no part is below 0.
#pragma once

#include <vector>

#include "pipeline/program/program.hpp"
#include "simulator/engine/costs.hpp"
#include "simulator/network/network.hpp"

namespace penstock {

struct IdleParts {
  double ramp_s = 0, imbalance_s = 0, transfers_s = 0, launch_s = 0, recompute_s = 0,
         all_reduce_s = 0;

  double total_s() const {
    return ramp_s + imbalance_s + transfers_s + launch_s + recompute_s + all_reduce_s;
  }
};

/// Per rank, for a program that can finish. Takes up to six simulations: nothing is simulated
/// again where there is nothing to take away.
std::vector<IdleParts> idle_parts(const Program& program, const Costs& costs,
                                  const Network& network);

/// The sum over all ranks, without parts below 0: what such a part gains is taken off the ramp, and
/// where that is not enough off the largest of the others, so that the parts still add up to the
/// idle time of all ranks.
IdleParts sum(const std::vector<IdleParts>& ranks);

}  // namespace penstock
