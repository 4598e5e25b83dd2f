#include "backend/executor/evaluator.hpp"

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

Evaluator::Evaluator(const Model& training, Executor& executor, Communicator& communicator,
                     ComputeDevice& device) {
  const Data samples(validation_job(training.plan.job), training.whole());
  for (const ValidationPart& part :
       validation_parts("validation", training.plan, training.whole(), samples.samples())) {
    parts_.push_back(std::make_unique<PartEvaluation>(training, part.microbatch,
                                                      samples.part(part.first, part.samples),
                                                      executor, communicator, device));
  }
}

void Evaluator::warm_up() {
  for (const auto& part : parts_) part->executor.warm_up(0);
}

double Evaluator::run() {
  MeanOfSteps mean;
  for (const auto& part : parts_) {
    const int64_t batch = part->forwards.model().plan.job.global_batch;
    for (int64_t step = 0; step * batch < part->data.samples(); ++step)
      mean.add(part->executor.run_step(step));
  }
  return mean.loss();
}

}  // namespace penstock
