// Where the time of a plan's ranks goes, and so what keeps its step from the bound.
#pragma once

#include "pipeline/plan/plan.hpp"
#include "simulator/engine/simulate.hpp"
#include "simulator/explain/idle.hpp"

namespace penstock {

/// Seconds of all ranks together; all parts add up to step x ranks.
struct TimeParts {
  double work_s = 0;       // forwards, backwards and updates, each once
  double recompute_s = 0;  // forwards that run again
  IdleParts idle;

  double total_s() const { return work_s + recompute_s + idle.total_s(); }
  /// Seconds lost to filling, emptying and unequal stages; to too little memory; to links; to hosts
  /// that issue their devices' work more slowly than it runs.
  double lost_to_compute_s() const { return idle.ramp_s + idle.imbalance_s; }
  double lost_to_memory_s() const { return recompute_s + idle.recompute_s; }
  double lost_to_network_s() const { return idle.transfers_s + idle.all_reduce_s; }
  double lost_to_launch_s() const { return idle.launch_s; }
};

/// The parts of a plan's step, with the simulation of its program; takes some simulations more.
TimeParts time_parts(const Plan& plan, const Slicing& slicing, const Costs& costs,
                     const Simulation& simulation, const Network& network);

}  // namespace penstock
