#include "backend/executor/evaluator.hpp"

#include <limits>

#include "graph/evaluation/evaluation.hpp"

namespace penstock {

InEvaluation::InEvaluation(const Model& training)
    : training_(training),
      graph_(in_evaluation(training.graph)),
      program_(delay_receives(lowered_program(for_inference(training.plan), training.slicing))) {}

Evaluator::Part::Part(const InEvaluation& forwards, const ValidationPart& part, const Data& samples,
                      const Plan& training_plan, Executor& training, Communicator& communicator,
                      ComputeDevice& device)
    : plan(with_microbatch(training_plan, part.microbatch)),
      data(samples.part(part.first, part.samples)),
      executor(forwards.model(plan), data, communicator, /*receive_depth=*/2, device,
               training.shared_store()),
      steps((part.samples + plan.job.global_batch - 1) / plan.job.global_batch) {}

Evaluator::Evaluator(const Model& training, Executor& executor, Communicator& communicator,
                     ComputeDevice& device)
    : forwards_(training) {
  const Data samples(validation_job(training.plan.job), training.graph);
  for (const ValidationPart& part :
       validation_parts(training.plan, training.graph, samples.samples())) {
    parts_.push_back(std::make_unique<Part>(forwards_, part, samples, training.plan, executor,
                                            communicator, device));
  }
}

void Evaluator::warm_up() {
  for (const auto& part : parts_) part->executor.warm_up(0);
}

double Evaluator::run() {
  double sum = 0, weight = 0;
  for (const auto& part : parts_) {
    for (int64_t step = 0; step < part->steps; ++step) {
      const StepResult result = part->executor.run_step(step);
      if (result.loss_weight > 0) sum += result.loss * result.loss_weight;
      weight += result.loss_weight;
    }
  }
  return weight > 0 ? sum / weight : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace penstock
