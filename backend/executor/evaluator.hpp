// Evaluates the model while it is trained: on the job's validation set, or on a script's batches.
#pragma once

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "backend/executor/executor.hpp"
#include "pipeline/plan/validation_parts.hpp"

namespace penstock {

/// A model in evaluation mode on microbatches of one size, and the forwards alone of its plan's
/// program, with the training's stages and tensors.
class InEvaluation {
 public:
  /// `training` outlives it. Throws InputError where the model has no evaluation mode.
  explicit InEvaluation(const Model& training) : InEvaluation(training, training.plan.microbatch) {}
  InEvaluation(const Model& training, int64_t microbatch);

  Model model() const {
    return {plan_, graph_, analysis_, slicing_, program_, training_.weights, training_.group};
  }

 private:
  const Model training_;
  const Plan plan_;
  const Graph graph_;
  const Analysis analysis_;
  const Slicing slicing_;
  const Program program_;
};

/// An evaluation of some samples, with the training's tensors.
struct PartEvaluation {
  /// All references outlive it; `trained` is the executor of the training.
  PartEvaluation(const Model& training, int64_t microbatch, Data samples, Executor& trained,
                 Communicator& communicator, ComputeDevice& device)
      : forwards(training, microbatch),
        data(std::move(samples)),
        executor(forwards.model(), data, communicator, /*receive_depth=*/2, device,
                 trained.shared_store()) {}

  InEvaluation forwards;
  Data data;  // may be replaced between steps
  Executor executor;
};

/// The mean loss of several steps.
class MeanOfSteps {
 public:
  void add(const StepResult& result) {
    if (result.loss_weight > 0) sum_ += result.loss * result.loss_weight;
    weight_ += result.loss_weight;
  }
  /// Not a number where no target counts.
  double loss() const {
    return weight_ > 0 ? sum_ / weight_ : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  double sum_ = 0, weight_ = 0;
};

/// The forwards of the plan alone, in evaluation mode, with the same tensors, stages, ranks and
/// microbatches as training. It changes none of them, and draws no random numbers: training goes on
/// as if it had not been.
class Evaluator {
 public:
  /// `training`: of the model whose tensors it takes; its job has a validation set. Throws
  /// InputError. All references outlive it.
  Evaluator(const Model& training, Executor& executor, Communicator& communicator,
            ComputeDevice& device);

  /// Asks for a GPU's memory, as Executor::warm_up.
  void warm_up();
  /// The mean loss over the whole validation set, not a number where no target counts. All ranks
  /// call it, between steps, and all get it.
  double run();

 private:
  std::vector<std::unique_ptr<PartEvaluation>> parts_;
};

}  // namespace penstock
