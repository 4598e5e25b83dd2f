// A list scheduler for pipelines: it places the action that can start first, of several the one
// that the rule prefers (Graham, "Bounds on Multiprocessing Timing Anomalies", 1969).
#pragma once

#include <optional>

#include "simulator/adaptive/adaptive.hpp"

namespace penstock {

struct ListRule {
  enum class Order {
    input_forward_weight,
    input_weight_forward,
    forward_input_weight,
    most_left  // the F or I with the most left behind it (work_left.hpp), W last
  };
  Order order = Order::input_forward_weight;
  bool deepest_first = true;  // of several stages of a rank that could run the same kind
  double ahead = 0;  // forwards that a rank may run ahead, in stages between it and the end; 0: any
  int whole = 0;     // microbatches whose backwards are whole where that is no slower, the first
};

/// Is B no slower than I and W?
bool whole_is_no_slower(const StageCosts& stage);

/// Compute actions with backwards in two parts from microbatch `whole` on, and of all microbatches
/// in stages where that is faster. Nothing where the cap lets no rank go on, or where an F could
/// never be undone by a backward in time.
std::optional<Program> list_schedule(const AdaptiveProblem& problem, const ListRule& rule);

}  // namespace penstock
