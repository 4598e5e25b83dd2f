// The least that any order of a plan's actions takes.
#pragma once

#include <vector>

#include "simulator/adaptive/adaptive.hpp"
#include "simulator/adaptive/stage_links.hpp"

namespace penstock {

/// Seconds of a stage's F, B, I and W, and how much longer one of its F, and one of its B or I,
/// takes.
struct OrderTimes {
  double forward_s = 0, backward_s = 0, input_s = 0, weight_s = 0;
  double first_forward_s = 0, first_backward_s = 0;
};

struct OrderProblem {
  int ranks = 1, microbatches = 1;
  std::vector<int> rank_of_stage;
  std::vector<OrderTimes> stages;
  StageLinks links;
};

/// No program of these actions ends earlier, however it runs backwards. Each rank is a machine
/// whose actions have heads and tails (machine.hpp): what of their own and of the numbers before
/// them must be done before (order_heads.hpp), and the same from the end on. As I and W, a backward
/// hands on early and leaves a W that fits anywhere behind; where a B is faster than both, a rank
/// that fills its idle time with W pays the difference.
double min_makespan_s(const OrderProblem& problem);
double min_makespan_s(const AdaptiveProblem& problem, const StageLinks& links);

}  // namespace penstock
