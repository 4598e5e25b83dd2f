// About how long the best split of a layout takes: which layouts to look into first. It bounds
// nothing, and nothing is left out for it.
//
// Ranks share the work evenly and idle as the schedule says for equal stages (where it does not,
// through one ramp of stages); `adaptive` is taken for a zero-bubble schedule with the memory of
// 1F1B. The first rank holds what the schedule says, and what does not fit is recomputed.
#pragma once

#include "planner/bounds/bounds.hpp"
#include "planner/bounds/chain_memory.hpp"
#include "planner/layouts/layout.hpp"

namespace penstock {

class LayoutGuess {
 public:
  /// `costs` of microbatches of one size; `kept` by the whole model as one stage; `fixed_bytes` of
  /// it: parameters, gradients, states.
  LayoutGuess(const ChainCosts& costs, const StageBytes& kept, int64_t fixed_bytes);

  /// Seconds; infinite where even recompute would hardly fit. `costs` are for the fastest rank.
  /// `cores`: how many ranks there are cores for.
  double step_s(const PipelineLayout& layout, int64_t limit_bytes, double cores) const;

 private:
  double forward_s_ = 0, backward_s_ = 0;  // of a microbatch, W included
  double host_s_ = 0;                      // of the hosts, for one microbatch
  double once_s_ = 0;                      // of a step
  double kept_bytes_, given_bytes_, fixed_bytes_;
};

}  // namespace penstock
