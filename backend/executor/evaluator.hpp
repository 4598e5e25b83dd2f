// Evaluates the model on the job's validation set while it is trained.
#pragma once

#include <memory>
#include <vector>

#include "backend/executor/executor.hpp"
#include "pipeline/plan/validation_parts.hpp"

namespace penstock {

/// A model in evaluation mode, and the forwards alone of its plan's program.
class InEvaluation {
 public:
  /// `training` outlives it. Throws InputError where the model has no evaluation mode.
  explicit InEvaluation(const Model& training);

  /// With the training's plan, or another one of the same stages, which outlives what it is for.
  Model model() const { return model(training_.plan); }
  Model model(const Plan& plan) const {
    return {plan, graph_, training_.analysis, training_.slicing, program_};
  }

 private:
  const Model training_;
  const Graph graph_;
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
    Part(const InEvaluation& forwards, const ValidationPart& part, const Data& samples,
         const Plan& training_plan, Executor& training, Communicator& communicator,
         ComputeDevice& device);
    Plan plan;
    Data data;
    Executor executor;
    int64_t steps;
  };

  const InEvaluation forwards_;
  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace penstock
