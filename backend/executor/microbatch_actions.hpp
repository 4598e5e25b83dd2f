// The actions on one microbatch: F, B, I, W, SEND, RECV and OVERLAP_F_B.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "backend/executor/mailbox.hpp"
#include "backend/executor/rank.hpp"
#include "backend/executor/step_metrics.hpp"

namespace penstock {

/// Runs them on the rank's stages: an action takes its tensors from the mailbox and leaves its
/// results there; a forward adds its loss to the metrics.
class MicrobatchActions {
 public:
  /// All references outlive it.
  MicrobatchActions(Rank& rank, Mailbox& mailbox, StepMetrics& metrics)
      : rank_(rank), mailbox_(mailbox), metrics_(metrics) {}

  /// Forgets the step before, begins one of the metrics and the mailbox, and clears the gradients.
  /// Where receives spin the device fails without memory from here on (ComputeDevice).
  void begin_step(int64_t step);
  /// Runs the action at `position` of the rank's program, which is one of these.
  void run(size_t position);

  /// The user outputs of a program of forwards, by index in Graph::outputs, samples in order; they
  /// are then the caller's.
  std::map<int, at::Tensor> take_outputs() { return std::exchange(outputs_, {}); }

 private:
  void forward(const Action& action);
  void backward(const Action& action);
  StepContext context(int microbatch) const;
  void keep_output(int output, int microbatch, const at::Tensor& tensor);

  Rank& rank_;
  Mailbox& mailbox_;
  StepMetrics& metrics_;
  int64_t step_ = 0;
  std::map<int, at::Tensor> outputs_;  // of all microbatches
};

}  // namespace penstock
