// How long a step goes on at least once an action begins.
#pragma once

#include <vector>

#include "pipeline/program/action.hpp"
#include "simulator/adaptive/adaptive.hpp"

namespace penstock {

class WorkLeft {
 public:
  explicit WorkLeft(const AdaptiveProblem& problem);

  /// From an F or I on, or a B in its place: what its microbatch still passes, or what some rank
  /// does for this microbatch and those behind it in the stages that are still to come.
  double seconds(const Action& action) const;

 private:
  struct Left {
    double way_s = 0;             // of one microbatch
    std::vector<double> ranks_s;  // of each rank, for one
  };

  const int microbatches_;
  std::vector<Left> from_forward_, from_input_;  // by stage
};

}  // namespace penstock
