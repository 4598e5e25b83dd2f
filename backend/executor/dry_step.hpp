// Dry steps: a step's actions on microbatches without real transfers, sums or OPT. A GPU's memory
// is then asked for, and its kernels are loaded, while no receive waits.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/executor/kept_buffers.hpp"
#include "backend/executor/mailbox.hpp"
#include "backend/executor/microbatch_actions.hpp"
#include "backend/executor/rank.hpp"
#include "backend/executor/step_metrics.hpp"

namespace penstock {

/// From its construction to `end` the mailbox's transfers move nothing and receives give zeros. How
/// many steps a rank takes is its own matter: it waits for no other.
class DrySteps {
 public:
  /// All references outlive it.
  DrySteps(Rank& rank, Mailbox& mailbox, StepMetrics& metrics, MicrobatchActions& actions);

  /// Transfers are real again, and the buffers that the model updates are as they were at first.
  void end();

  /// Runs dry steps until one asks for no more memory: blocks that the allocator has divided may
  /// not fit again.
  void ask_for_memory(int64_t step);
  /// Runs one, waits for the device, and forgets its results and gradients. Returns the seconds
  /// that the host took to issue it.
  double run(int64_t step);
  /// The seconds that one takes, the minimum of a few.
  double min_step_s(int64_t step);
  /// Issues the actions of one; its gradients stay.
  void issue(int64_t step);

 private:
  std::vector<at::Tensor> pin_inputs(int64_t step) const;

  Rank& rank_;
  Mailbox& mailbox_;
  StepMetrics& metrics_;
  MicrobatchActions& actions_;
  KeptBuffers buffers_;
  std::unique_ptr<Communicator> dry_;
  const TensorGroup group_;  // whose conversions move nothing either
};

}  // namespace penstock
