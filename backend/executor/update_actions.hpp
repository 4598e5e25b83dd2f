// The actions on parameters, REDUCE_GRAD and OPT: from a step's gradients to updated parameters.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "backend/executor/rank.hpp"
#include "backend/executor/update/gradient_sync.hpp"
#include "backend/executor/update/optimizer.hpp"

namespace penstock {

class UpdateActions {
 public:
  /// `rank` outlives it.
  explicit UpdateActions(Rank& rank);

  /// All ranks call it; the first call connects those that sum gradients. `learning_rate`: in place
  /// of the job's.
  void begin_step(int64_t step, std::optional<double> learning_rate);
  /// The action at `position`, not one of these, comes next: if it is the last backward of a stage,
  /// sums begin as it makes gradients final.
  void before_backward(size_t position);
  /// Runs the action at `position` of the rank's program, which is one of these. A REDUCE_GRAD
  /// begins the sums of its stage, where the plan overlaps them. It waits for all, and sums what
  /// ranks of a pipeline share, if nothing but other REDUCE_GRADs and OPTs follows: other ranks may
  /// need what does. The last OPT publishes the parameters that this rank updates for others.
  void run(size_t position);
  /// Ends the backward of all stages and sums their gradients over the ranks, once in a step.
  void sum_gradients();
  /// Brings a rank that has the sums of its own part alone the others' sums. All ranks call it at
  /// the same point of a step.
  void gather_gradients() { sync_.reduction().gather(); }

  /// Does this rank update a parameter that it holds? Another may do so and broadcast it.
  bool updates(int tensor) const { return sync_.updates(tensor); }
  /// Bytes that the optimizer asks for at its first step.
  int64_t missing_state_bytes();
  Optimizer& optimizer() { return optimizer_; }

 private:
  void reduce(size_t position);
  void update(int stage);
  bool trains(int tensor) const { return rank_.trained.contains(tensor) && updates(tensor); }

  Rank& rank_;
  const std::map<size_t, int> last_backwards_;  // by position: the stage
  GradientSync sync_;
  Optimizer optimizer_;
  const int sum_at_;      // position of the REDUCE_GRAD that sums, or -1
  const int publish_at_;  // position of the last OPT, or -1
  int64_t step_ = 0;
  std::optional<double> learning_rate_;
  bool summed_ = false;    // in this step
  std::set<int> updated_;  // tensors that OPT has updated in this step
};

}  // namespace penstock
