#include "backend/executor/executor.hpp"

#include <utility>

#include "backend/executor/dry_step.hpp"

namespace penstock {

namespace {

class Finally {
 public:
  explicit Finally(const std::function<void()>& call) : call_(call) {}
  ~Finally() { call_(); }
  Finally(const Finally&) = delete;
  Finally& operator=(const Finally&) = delete;

 private:
  const std::function<void()>& call_;
};

}  // namespace

Executor::Executor(const Model& model, const Data& data, Communicator& communicator,
                   int receive_depth, ComputeDevice& device, std::shared_ptr<TensorStore> store)
    : rank_(model, data, communicator, device, std::move(store)),
      marks_(device.make_marks()),
      mailbox_(rank_, receive_depth),
      metrics_(rank_),
      microbatches_(rank_, mailbox_, metrics_),
      update_(rank_) {}

Replaying Executor::warm_up(int64_t step, CudaGraphs graphs) {
  DrySteps dry_steps(rank_, mailbox_, metrics_, microbatches_);
  dry_steps.ask_for_memory(step);
  Replaying replaying;
  if (graphs != CudaGraphs::never)
    replaying = choose_replay(rank_, dry_steps, step, graphs, update_.missing_state_bytes());
  dry_steps.end();
  return replaying;
}

void Executor::refresh() {
  for (auto& [index, stage] : rank_.stages) stage->refresh();
}

StepResult Executor::run_step(int64_t step, std::optional<double> learning_rate) {
  const Finally ended(on_end);
  const InTensorGroup here(rank_.group);
  begin_step(step, learning_rate);
  marks_->mark();
  for (size_t i = 0; i < rank_.actions().size(); ++i) {
    if (on_action) on_action(step, static_cast<int>(i));
    if (rank_.actions()[i].kind == Kind::optimizer) end_backward();
    marks_->mark();
    run(i);
    marks_->mark();
    mailbox_.enqueued(i);
  }
  if (on_action) on_action(step, -1);
  end_backward();
  end_evaluation();
  mailbox_.finish_step();
  marks_->mark();
  rank_.communicator.synchronise();
  rank_.device.fail_without_memory(false);
  const std::vector<double> times = marks_->times();
  StepResult result;
  result.step_s = times.back() - times.front();
  result.timeline = timeline(times);
  result.loss = metrics_.loss();
  result.microbatch_losses = metrics_.microbatch_losses();
  result.loss_weight = metrics_.weight();
  result.gradient_norm = metrics_.gradient_norm();
  result.stop = metrics_.stop();
  result.outputs = microbatches_.take_outputs();
  return result;
}

void Executor::begin_step(int64_t step, std::optional<double> learning_rate) {
  mailbox_.finish_step();  // where LossNotFinite ended the step before
  marks_->times();
  step_ = step;
  backward_ended_ = false;
  update_.begin_step(step, learning_rate);
  microbatches_.begin_step(step);
  metrics_.share_weights();
}

void Executor::run(size_t position) {
  const Kind kind = rank_.actions()[position].kind;
  if (kind == Kind::reduce_grad || kind == Kind::optimizer) {
    update_.run(position);
  } else {
    update_.before_backward(position);
    microbatches_.run(position);
  }
}

/// Before OPT, once in a step: all ranks learn the step's loss, go on together only if it is
/// finite, and agree on whether the step is the last.
void Executor::end_backward() {
  if (backward_ended_ || !rank_.training) return;
  backward_ended_ = true;
  update_.sum_gradients();
  rank_.communicator.synchronise();
  rank_.device.fail_without_memory(false);
  metrics_.sum_over_ranks(on_agreement && on_agreement());
  if (on_gradients) on_gradients(step_);
  metrics_.clip();
}

/// A step of forwards ends on all ranks when the last of them has ended.
void Executor::end_evaluation() {
  if (rank_.training) return;
  rank_.communicator.synchronise();
  rank_.device.fail_without_memory(false);
  metrics_.sum_over_ranks();
}

/// `times`: of the step's start, of the start and end of each action, of the step's end.
Timeline Executor::timeline(const std::vector<double>& times) const {
  Timeline timeline;
  for (size_t i = 0; i < rank_.actions().size(); ++i) {
    const Action& action = rank_.actions()[i];
    TimelineEvent event{rank_.communicator.rank(), action, times[2 * i + 1], times[2 * i + 2]};
    if (is_send(action.kind) || is_receive(action.kind)) event.bytes = mailbox_.bytes(i);
    timeline.push_back(event);
  }
  return timeline;
}

}  // namespace penstock
