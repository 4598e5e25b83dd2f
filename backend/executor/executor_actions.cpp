// What each kind of action does, and the tensors that pass between the stages of a rank.
#include <stdexcept>

#include "backend/executor/executor.hpp"

namespace penstock {

Values Executor::inputs(int stage, int microbatch) {
  Values values = std::move(arrived_[{stage, microbatch}]);
  arrived_.erase({stage, microbatch});
  for (const ValueId input : model_.slicing.stages[stage].user_inputs) {
    const std::string& name = model_.graph.values[input].name;
    values[input] = on_device(data_.read(name, first_sample(microbatch), model_.plan.microbatch),
                              device_.where());
  }
  return values;
}

void Executor::forward(const Action& action) {
  ReplayedStage& stage = *stages_.at(action.stage);
  const Plan& plan = model_.plan;
  std::optional<at::Tensor> target;
  if (training_ && stage.needs_target()) {
    target = on_device(data_.read(kTarget, first_sample(action.microbatch), plan.microbatch),
                       device_.where());
  }
  StepContext context;
  context.random = {plan.job.seed, step_, replica_ * plan.microbatches + action.microbatch};
  context.batch = plan.microbatch;
  context.loss_scale = loss_scales_[action.microbatch];
  context.training = training_;
  context.float32_loss = plan.job.precision == Precision::bf16;
  Stage::Forward result =
      stage.forward(action.microbatch, inputs(action.stage, action.microbatch), target, context);
  if (training_ && result.loss) note_loss(*result.loss, context.loss_scale);
  for (auto& [output, tensor] : result.outputs) outputs_[output][action.microbatch] = tensor;
  for (const StageEdge& edge : model_.slicing.edges) {
    if (edge.producer != action.stage) continue;
    Values values;
    for (const Crossing& crossing : edge.values) {
      values[crossing.value] = result.sent.at(crossing.value);
    }
    hand_over(edge.producer, edge.consumer, action.microbatch, false, values);
  }
}

/// On a GPU it is read at the end: asking for it would wait until it is computed.
void Executor::note_loss(const at::Tensor& loss, double scale) {
  if (loss.is_cpu()) {
    loss_ += loss.item<double>() * scale;
  } else {
    losses_.emplace_back(loss, scale);
  }
}

void Executor::backward(const Action& action) {
  ReplayedStage& stage = *stages_.at(action.stage);
  const Values gradients = summed_gradients({action.stage, action.microbatch});
  const Values back = action.kind == Kind::backward
                          ? stage.backward(action.microbatch, gradients)
                          : stage.backward_input(action.microbatch, gradients);
  for (const StageEdge& edge : model_.slicing.edges) {
    if (edge.consumer != action.stage) continue;
    Values values;
    for (const Crossing& crossing : edge.values) {
      if (crossing.carries_gradient) values[crossing.value] = back.at(crossing.value);
    }
    if (!values.empty()) hand_over(edge.consumer, edge.producer, action.microbatch, true, values);
  }
}

/// Gives values to a stage of this rank, or keeps them for the SEND.
void Executor::hand_over(int from, int to, int microbatch, bool gradients, const Values& values) {
  if (!mine(to)) {
    outbox_[{from, to, microbatch, gradients}] = values;
  } else if (gradients) {
    for (const auto& [value, tensor] : values) gradients_[{to, microbatch}][value][from] = tensor;
  } else {
    for (const auto& [value, tensor] : values) arrived_[{to, microbatch}][value] = tensor;
  }
}

/// Added in ascending order of the consuming stage, whatever order they came in.
Values Executor::summed_gradients(Slot slot) {
  Values sums;
  for (const auto& [value, parts] : gradients_[slot]) {
    at::Tensor sum = parts.begin()->second;
    for (auto part = std::next(parts.begin()); part != parts.end(); ++part)
      sum = sum + part->second;
    sums[value] = sum;
  }
  gradients_.erase(slot);
  return sums;
}

/// What the forward produced moves while the backward computes: the SENDs that follow are started
/// between the two.
void Executor::overlap(size_t position, const Action& action) {
  forward(forward_part(action));
  for (size_t next = position + 1; next < actions().size(); ++next) {
    const Action& transfer = actions()[next];
    if (is_receive(transfer.kind)) continue;
    if (!is_send(transfer.kind)) break;
    const bool ready = transfer.kind == Kind::send_forward && transfer.stage == action.stage &&
                       transfer.microbatch == action.microbatch;
    if (!ready) continue;
    send(next, transfer);
    sent_early_.insert(next);
  }
  backward(backward_part(action));
}

void Executor::send(size_t position, const Action& action) {
  if (sent_early_.contains(position)) return;
  const bool gradients = action.kind == Kind::send_backward;
  const auto letter =
      outbox_.find({action.stage, peer_stage(action), action.microbatch, gradients});
  if (letter == outbox_.end()) {
    throw std::logic_error(to_string(action) + " comes before what it sends");
  }
  exchange_.send(position, letter->second);
  outbox_.erase(letter);
}

void Executor::receive(size_t position, const Action& action) {
  const Values values = exchange_.receive(position);
  // As if the peer's stage handed them over here.
  hand_over(peer_stage(action), action.stage, action.microbatch, action.kind == Kind::recv_backward,
            values);
}

void Executor::reduce() {
  if (reduced_) return;
  reduced_ = true;
  for (auto& [index, stage] : stages_) stage->finish_step();
  store_->set_gradients(replayed_gradients_);
  gather_gradients(transmissions_, *store_, communicator_);
  reduce_gradients(groups_, *store_, communicator_);
}

void Executor::optimize(int stage) {
  std::set<int> due;
  for (const int tensor : model_.slicing.stages[stage].tensors) {
    if (!trained_.contains(tensor) || !steps(tensor)) continue;
    if (optimized_.insert(tensor).second) due.insert(tensor);
  }
  const Job& job = model_.plan.job;
  optimizer_.step(*store_, due, learning_rate_factor(job.optimizer, step_, job.steps));
}

}  // namespace penstock
