#include "backend/executor/executor.hpp"

#include <cmath>

#include "backend/executor/gradient_norm.hpp"
#include "base/error.hpp"
#include "graph/analysis/loss.hpp"

namespace penstock {

namespace {

bool has_backward(const Program& program) {
  for (const auto& actions : program.ranks) {
    for (const Action& action : actions) {
      if (is_compute(action.kind) && action.kind != Kind::forward) return true;
    }
  }
  return false;
}

/// Collectives wait for other ranks, so nothing that those need may come after them.
int reduction_point(const std::vector<Action>& actions) {
  int point = -1;
  for (size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].kind == Kind::reduce_grad) point = static_cast<int>(i);
    if (is_compute(actions[i].kind) || is_send(actions[i].kind) || is_receive(actions[i].kind)) {
      point = -1;
    }
  }
  return point;
}

/// Which sign something that is no number has depends on the processor.
std::string text_of(double value) { return std::isnan(value) ? "nan" : std::to_string(value); }

int last_optimizer(const std::vector<Action>& actions) {
  int last = -1;
  for (size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].kind == Kind::optimizer) last = static_cast<int>(i);
  }
  return last;
}

std::set<int> tensors_of(const Slicing& slicing, const Program& program, int rank) {
  std::set<int> tensors;
  for (size_t stage = 0; stage < slicing.stages.size(); ++stage) {
    if (program.rank_of_stage[stage] != rank) continue;
    tensors.insert(slicing.stages[stage].tensors.begin(), slicing.stages[stage].tensors.end());
  }
  return tensors;
}

}  // namespace

Executor::Executor(const Model& model, const Data& data, Communicator& communicator,
                   int receive_depth, ComputeDevice& device)
    : model_(model),
      data_(data),
      communicator_(communicator),
      rank_(communicator.rank() % model.plan.ranks()),
      replica_(communicator.rank() / model.plan.ranks()),
      device_(device),
      marks_(device.make_marks()),
      training_(has_backward(model.program)),
      store_(std::make_unique<TensorStore>(
          model.graph, tensors_of(model.slicing, model.program, rank_), device.where())),
      exchange_(communicator,
                resolve_transfers(model.program, model.slicing, rank_, communicator.rank() - rank_),
                model.graph, model.plan.microbatch, receive_depth, device.where()),
      groups_(reduction_groups(model.graph, model.slicing, model.program.rank_of_stage,
                               static_cast<int>(model.plan.data_parallel), communicator.rank())),
      transmissions_(transmissions(model.slicing, model.program.rank_of_stage, communicator.rank(),
                                   transmission_tag(model.program, model.slicing))),
      trained_(tensors_of_loss(model.graph, model.analysis)),
      optimizer_(model.plan.job.optimizer,
                 parameter_settings(model.plan.job.optimizer, model.graph)),
      reduce_at_(reduction_point(actions())),
      publish_at_(last_optimizer(actions())) {
  const auto untrained = [&](int tensor) { return !trained_.contains(tensor); };
  for (ReductionGroup& group : groups_) std::erase_if(group.tensors, untrained);
  std::erase_if(transmissions_, [&](const auto& shared) { return untrained(shared.tensor); });
  for (const Transmission& shared : transmissions_) {
    if (shared.owner != communicator.rank()) received_.insert(shared.tensor);
  }
  if (model.plan.job.precision == Precision::bf16) store_->sum_in_float32();
  if (replica_ == 0)
    counted_ = first_held(model.graph, model.slicing, model.program.rank_of_stage, rank_);
  for (int stage = 0; stage < model.program.stage_count(); ++stage) {
    if (!mine(stage)) continue;
    stages_[stage] = std::make_unique<ReplayedStage>(std::make_unique<SegmentedStage>(
        model.graph, model.analysis, model.slicing, stage, *store_, model.plan.job.loss));
  }
}

StepResult Executor::run_step(int64_t step) {
  begin(step);
  StepResult result;
  marks_->mark();
  for (size_t i = 0; i < actions().size(); ++i) {
    const Action& action = actions()[i];
    if (on_action) on_action(step, static_cast<int>(i));
    if (action.kind == Kind::optimizer) agree();
    marks_->mark();
    run(i, action);
    marks_->mark();
    exchange_.enqueued(i);
  }
  if (on_action) on_action(step, -1);
  agree();
  exchange_.finish_step();
  marks_->mark();
  communicator_.synchronise();
  device_.fail_without_memory(false);
  const std::vector<double> times = marks_->times();
  result.step_s = times.back() - times.front();
  result.timeline = timeline(times);
  result.loss = loss_;
  result.gradient_norm = gradient_norm_;
  for (const auto& [output, parts] : outputs_) {
    std::vector<at::Tensor> ordered;
    for (const auto& [microbatch, part] : parts) ordered.push_back(part);
    result.outputs[output] = at::cat(ordered);
  }
  return result;
}

/// `times`: of the step's start, of the start and end of each action, of the step's end.
Timeline Executor::timeline(const std::vector<double>& times) const {
  Timeline timeline;
  for (size_t i = 0; i < actions().size(); ++i) {
    const Action& action = actions()[i];
    TimelineEvent event{communicator_.rank(), action, times[2 * i + 1], times[2 * i + 2]};
    if (is_send(action.kind) || is_receive(action.kind)) event.bytes = exchange_.bytes(i);
    timeline.push_back(event);
  }
  return timeline;
}

void Executor::begin(int64_t step) {
  step_ = step;
  loss_ = 0;
  gradient_norm_.reset();
  losses_.clear();
  reduced_ = agreed_ = false;
  arrived_.clear();
  gradients_.clear();
  outbox_.clear();
  outputs_.clear();
  optimized_.clear();
  sent_early_.clear();
  store_->clear_gradients();
  plan_losses();
  device_.fail_without_memory(exchange_.receives_spin());  // to the end of its receives
  exchange_.begin_step();
}

int64_t Executor::first_sample(int microbatch) const {
  const Plan& plan = model_.plan;
  return step_ * plan.job.global_batch +
         (replica_ * plan.microbatches + microbatch) * plan.microbatch;
}

/// Each microbatch's share of the loss: equal, or by the targets that it counts.
void Executor::plan_losses() {
  const Plan& plan = model_.plan;
  const auto count = static_cast<double>(plan.microbatches * plan.data_parallel);
  loss_scales_.assign(plan.microbatches, 1 / count);
  if (!training_ || !data_.has_ignored_targets()) return;
  const int64_t all = data_.counted_targets(step_ * plan.job.global_batch, plan.job.global_batch);
  for (int m = 0; m < plan.microbatches; ++m) {
    const int64_t counted = data_.counted_targets(first_sample(m), plan.microbatch);
    loss_scales_[m] = static_cast<double>(counted) / static_cast<double>(all);
  }
}

void Executor::run(size_t position, const Action& action) {
  switch (action.kind) {
    case Kind::forward: return forward(action);
    case Kind::backward:
    case Kind::backward_input: return backward(action);
    case Kind::backward_weight: return stages_.at(action.stage)->backward_weight(action.microbatch);
    case Kind::send_forward:
    case Kind::send_backward: return send(position, action);
    case Kind::recv_forward:
    case Kind::recv_backward: return receive(position, action);
    case Kind::reduce_grad:
      if (static_cast<int>(position) == reduce_at_) reduce();
      return;
    case Kind::optimizer:
      optimize(action.stage);
      if (static_cast<int>(position) == publish_at_)
        publish_values(transmissions_, *store_, communicator_);
      return;
    case Kind::overlap: return overlap(position, action);
  }
}

/// All ranks know the step's loss, and go on together only if it is finite.
void Executor::agree() {
  if (agreed_ || !training_) return;
  agreed_ = true;
  reduce();
  communicator_.synchronise();
  device_.fail_without_memory(false);
  for (const auto& [loss, scale] : losses_) loss_ += loss.item<double>() * scale;
  const bool clips = model_.plan.job.optimizer.clip_norm > 0;
  at::Tensor sums = at::full({clips ? 2 : 1}, loss_, at::kDouble);
  if (clips) sums[1] = squared_norm(*store_, counted_);
  std::vector<int> all(communicator_.size());
  for (int i = 0; i < communicator_.size(); ++i) all[i] = i;
  communicator_.all_reduce(sums, all);
  loss_ = sums[0].item<double>();
  if (!std::isfinite(loss_)) {
    throw LossNotFinite("the loss of step " + std::to_string(step_) + " is " + text_of(loss_) +
                        "; the parameters were not changed by it. "
                        "Lower the learning rate, or look for bad values in the data.");
  }
  if (on_gradients) on_gradients(step_);
  if (clips) clip(sums[1].item<double>());
}

/// Each parameter counts once, however many ranks hold it.
void Executor::clip(double squared_norm) {
  gradient_norm_ = std::sqrt(squared_norm);
  if (!std::isfinite(squared_norm)) {
    throw LossNotFinite("the norm of the gradients of step " + std::to_string(step_) + " is " +
                        text_of(*gradient_norm_) +
                        "; the parameters were not changed by it. "
                        "Lower the learning rate, or look for bad values in the data.");
  }
  clip_gradients(*store_, *gradient_norm_, model_.plan.job.optimizer.clip_norm);
}

}  // namespace penstock
