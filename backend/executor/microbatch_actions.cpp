#include "backend/executor/microbatch_actions.hpp"

#include <ATen/ops/empty.h>

#include <optional>
#include <vector>

namespace penstock {

void MicrobatchActions::begin_step(int64_t step) {
  step_ = step;
  outputs_.clear();
  rank_.begin_step();
  metrics_.begin_step(step);
  rank_.device.fail_without_memory(mailbox_.receives_spin());  // to the end of its receives
  mailbox_.begin_step();
}

void MicrobatchActions::run(size_t position) {
  const Action& action = rank_.actions()[position];
  switch (action.kind) {
    case Kind::forward: return forward(action);
    case Kind::backward:
    case Kind::backward_input: return backward(action);
    case Kind::backward_weight:
      return rank_.stages.at(action.stage)->backward_weight(action.microbatch);
    case Kind::send_forward:
    case Kind::send_backward: return mailbox_.send(position);
    case Kind::recv_forward:
    case Kind::recv_backward: return mailbox_.receive(position);
    case Kind::overlap:
      forward(forward_part(action));
      mailbox_.send_early(position);
      return backward(backward_part(action));
    case Kind::reduce_grad:
    case Kind::optimizer: break;  // UpdateActions
  }
}

StepContext MicrobatchActions::context(int microbatch) const {
  const Plan& plan = rank_.model.plan;
  StepContext context;
  context.random = {plan.job.seed, step_, rank_.replica * plan.microbatches + microbatch,
                    rank_.group.part};
  context.batch = plan.microbatch;
  context.loss_scale = metrics_.loss_scale(microbatch);
  context.training = rank_.training;
  context.outputs = !rank_.has_loss;
  context.float32_loss = plan.job.precision == Precision::bf16;
  return context;
}

void MicrobatchActions::forward(const Action& action) {
  const int microbatch = action.microbatch;
  Stage& stage = *rank_.stages.at(action.stage);
  std::optional<at::Tensor> target;
  if (rank_.has_loss && stage.needs_target()) target = rank_.read(kTarget, step_, microbatch);
  Values inputs = mailbox_.take_inputs(action.stage, microbatch);
  for (const ValueId input : rank_.model.slicing.stages[action.stage].user_inputs)
    inputs[input] = rank_.read(rank_.model.graph.values[input].name, step_, microbatch);
  const Stage::Forward result = stage.forward(microbatch, inputs, target, context(microbatch));
  if (rank_.has_loss && result.loss) metrics_.add_loss(*result.loss, microbatch);
  for (const auto& [output, tensor] : result.outputs) keep_output(output, microbatch, tensor);
  mailbox_.put_outputs(action.stage, microbatch, result.sent);
}

void MicrobatchActions::backward(const Action& action) {
  Stage& stage = *rank_.stages.at(action.stage);
  const Values gradients = mailbox_.take_gradients(action.stage, action.microbatch);
  const Values returned = action.kind == Kind::backward
                              ? stage.backward(action.microbatch, gradients)
                              : stage.backward_input(action.microbatch, gradients);
  mailbox_.put_gradients(action.stage, action.microbatch, returned);
}

/// Memory in which all microbatches have theirs, so that joining them takes no more.
void MicrobatchActions::keep_output(int output, int microbatch, const at::Tensor& tensor) {
  const at::Tensor part = tensor.dim() == 0 ? tensor.reshape({1}) : tensor;  // a loss: one of each
  at::Tensor& all = outputs_[output];
  if (rank_.model.plan.microbatches == 1) {
    all = part;
    return;
  }
  if (!all.defined()) {
    std::vector<int64_t> shape = part.sizes().vec();
    shape[0] *= rank_.model.plan.microbatches;
    all = at::empty(shape, part.options());
  }
  all.narrow(0, microbatch * part.size(0), part.size(0)).copy_(part);
}

}  // namespace penstock
