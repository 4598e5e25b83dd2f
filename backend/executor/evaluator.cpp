#include "backend/executor/evaluator.hpp"

#include <limits>

#include "graph/evaluation/evaluation.hpp"

namespace penstock {

namespace {

Graph graph_of(const Model& training, int64_t microbatch) {
  const bool other = training.group != nullptr && microbatch != training.plan.microbatch;
  return in_evaluation(other ? with_batch(training.plan, *training.group, microbatch)
                             : training.graph);
}

}  // namespace

InEvaluation::InEvaluation(const Model& training, int64_t microbatch)
    : training_(training),
      plan_(with_microbatch(training.plan, microbatch)),
      graph_(graph_of(training, microbatch)),
      analysis_(analyse(graph_)),
      slicing_(slice(plan_, graph_, analysis_)),
      program_(delay_receives(lowered_program(for_inference(plan_), slicing_))) {}

Evaluator::Part::Part(const Model& training, const ValidationPart& part, const Data& samples,
                      Executor& trained, Communicator& communicator, ComputeDevice& device)
    : forwards(training, part.microbatch),
      data(samples.part(part.first, part.samples)),
      executor(forwards.model(), data, communicator, /*receive_depth=*/2, device,
               trained.shared_store()) {
  const int64_t batch = forwards.model().plan.job.global_batch;
  steps = (part.samples + batch - 1) / batch;
}

Evaluator::Evaluator(const Model& training, Executor& executor, Communicator& communicator,
                     ComputeDevice& device) {
  const Data samples(validation_job(training.plan.job), training.whole());
  for (const ValidationPart& part :
       validation_parts(training.plan, training.whole(), samples.samples())) {
    parts_.push_back(
        std::make_unique<Part>(training, part, samples, executor, communicator, device));
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
