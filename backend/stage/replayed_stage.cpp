#include "backend/stage/replayed_stage.hpp"

#include <ATen/ops/full.h>

namespace penstock {

Stage::Forward ReplayedStage::perform(CapturedActions::Kind kind, int microbatch,
                                      const ActionArguments& arguments,
                                      const CapturedActions::Work& work) {
  return captured_.perform({index_, kind, microbatch}, arguments, stage_->device(), work);
}

Stage::Forward ReplayedStage::forward(int microbatch, const Values& inputs,
                                      const std::optional<at::Tensor>& target,
                                      const StepContext& context) {
  ActionArguments arguments{inputs, target, {}};
  if (context.training && stage_->has_loss() && !captured_.running()) {
    arguments.loss_scale =
        at::full({}, context.loss_scale, at::TensorOptions(at::kDouble).device(stage_->device()));
  }
  return perform(CapturedActions::Kind::forward, microbatch, arguments,
                 [&](const ActionArguments& own) {
                   StepContext captured = context;
                   captured.captured_loss_scale = own.loss_scale;
                   return stage_->forward(microbatch, own.values, own.target, captured);
                 });
}

Values ReplayedStage::backward(int microbatch, const Values& gradients) {
  return perform(CapturedActions::Kind::backward, microbatch, {gradients, {}, {}},
                 [&](const ActionArguments& own) {
                   return Forward{stage_->backward(microbatch, own.values), {}, {}};
                 })
      .sent;
}

Values ReplayedStage::backward_input(int microbatch, const Values& gradients) {
  return perform(CapturedActions::Kind::backward_input, microbatch, {gradients, {}, {}},
                 [&](const ActionArguments& own) {
                   return Forward{stage_->backward_input(microbatch, own.values), {}, {}};
                 })
      .sent;
}

void ReplayedStage::backward_weight(int microbatch) {
  perform(CapturedActions::Kind::backward_weight, microbatch, {}, [&](const auto& /*own*/) {
    stage_->backward_weight(microbatch);
    return Forward{};
  });
}

void ReplayedStage::finish_step() {
  perform(CapturedActions::Kind::finish_step, 0, {}, [&](const auto& /*own*/) {
    stage_->finish_step();
    return Forward{};
  });
}

}  // namespace penstock
