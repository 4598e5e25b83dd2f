// The least time that recompute takes where ranks hold more than fits: a knapsack that may take
// parts of units (G. Dantzig, Discrete-Variable Extremum Problems, 1957). A unit whose forward runs
// again frees at most what that forward saved.
#pragma once

#include <vector>

namespace penstock {

class RecomputeBound {
 public:
  struct Unit {
    double forward_s = 0;  // of all microbatches of a step
    double bytes = 0;      // that it saves of one microbatch
  };
  /// Without units nothing takes time: for spaces without a limit.
  explicit RecomputeBound(std::vector<Unit> units = {});

  /// Seconds of a step in which some ranks together keep so many bytes less of each microbatch.
  /// Convex in `bytes`; what all units together cannot free takes no longer than all of them.
  double seconds(double bytes) const;

 private:
  std::vector<Unit> sums_{{}};  // cheapest bytes first
};

}  // namespace penstock
