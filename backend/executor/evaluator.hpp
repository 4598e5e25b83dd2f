// Evaluates the model on the job's validation set while it is trained.
#pragma once

#include <memory>
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
  /// A part of the validation set.
  struct Part {
    Part(const Model& training, const ValidationPart& part, const Data& samples, Executor& trained,
         Communicator& communicator, ComputeDevice& device);
    InEvaluation forwards;
    Data data;
    Executor executor;
    int64_t steps = 0;
  };

  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace penstock
