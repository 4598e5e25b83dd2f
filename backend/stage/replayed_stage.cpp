#include "backend/stage/replayed_stage.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <stdexcept>

namespace penstock {

namespace {

/// The memory of `tensor`, without a hold on it.
at::Tensor place_of(const at::Tensor& tensor) {
  return at::for_blob(tensor.data_ptr(), tensor.sizes())
      .strides(tensor.strides())
      .options(tensor.options())
      .target_device(tensor.device())
      .make_tensor();
}

/// `change` applied to each tensor.
template <class Change>
Stage::Forward changed(const Stage::Forward& results, Change change) {
  Stage::Forward result;
  for (const auto& [value, tensor] : results.sent) result.sent[value] = change(tensor);
  if (results.loss) result.loss = change(*results.loss);
  for (const auto& [output, tensor] : results.outputs) result.outputs[output] = change(tensor);
  return result;
}

/// The same of what an action is given.
template <class Given, class Change>
Given changed(const Given& given, Change change) {
  Given result;
  for (const auto& [value, tensor] : given.values) result.values[value] = change(tensor);
  if (given.target) result.target = change(*given.target);
  if (given.loss_scale) result.loss_scale = change(*given.loss_scale);
  return result;
}

at::Tensor copy(const at::Tensor& tensor) { return tensor.clone(); }

}  // namespace

void ReplayedStage::record(Recorder& recorder) {
  run();
  recorder_ = &recorder;
}

void ReplayedStage::replay() {
  recorder_ = nullptr;
  replays_ = true;
}

void ReplayedStage::run() {
  if (recorder_ != nullptr) stage_->reset();
  recorder_ = nullptr;
  replays_ = false;
  actions_.clear();
}

template <class Work>
Stage::Forward ReplayedStage::perform(Key key, const Given& given, Work work) {
  if (recorder_ != nullptr) return record(key, given, work);
  if (!replays_) return work(given);
  const auto found = actions_.find(key);
  if (found == actions_.end())
    throw std::logic_error("an action is replayed that was not recorded");
  return replay(found->second, given);
}

/// A number of the host among the results is known when it is recorded, and is kept.
template <class Work>
Stage::Forward ReplayedStage::record(Key key, const Given& given, Work work) {
  Action& action = actions_[key];
  const auto fresh = [&](const at::Tensor& tensor) {
    if (tensor.device() == stage_->device()) return at::empty_like(tensor);
    throw std::runtime_error("the host hands a stage a value that it computed");
  };
  const auto place = [&](const at::Tensor& tensor) {
    return tensor.device() == stage_->device() ? place_of(tensor) : tensor;
  };
  action.recording = recorder_->record([&] {
    const Given own = changed(given, fresh);
    action.given = changed(own, place_of);
    action.results = changed(work(own), place);
  });
  return changed(action.results, copy);
}

Stage::Forward ReplayedStage::replay(Action& action, const Given& given) {
  const at::NoGradGuard no_grad;
  for (auto& [value, place] : action.given.values) place.copy_(given.values.at(value));
  if (given.target) action.given.target->copy_(*given.target);
  if (given.loss_scale) action.given.loss_scale->copy_(*given.loss_scale);
  action.recording->replay();
  return changed(action.results, copy);
}

Stage::Forward ReplayedStage::forward(int microbatch, const Values& inputs,
                                      const std::optional<at::Tensor>& target,
                                      const StepContext& context) {
  Given given{inputs, target, {}};
  if (context.training && stage_->has_loss() && (recorder_ != nullptr || replays_)) {
    given.loss_scale =
        at::full({}, context.loss_scale, at::TensorOptions(at::kDouble).device(stage_->device()));
  }
  return perform({Part::forward, microbatch}, given, [&](const Given& own) {
    StepContext of = context;
    of.recorded_loss_scale = own.loss_scale;
    return stage_->forward(microbatch, own.values, own.target, of);
  });
}

Values ReplayedStage::backward(int microbatch, const Values& gradients) {
  return perform({Part::backward, microbatch}, {gradients, {}, {}},
                 [&](const Given& given) {
                   return Stage::Forward{stage_->backward(microbatch, given.values), {}, {}};
                 })
      .sent;
}

Values ReplayedStage::backward_input(int microbatch, const Values& gradients) {
  return perform({Part::backward_input, microbatch}, {gradients, {}, {}},
                 [&](const Given& given) {
                   return Stage::Forward{stage_->backward_input(microbatch, given.values), {}, {}};
                 })
      .sent;
}

void ReplayedStage::backward_weight(int microbatch) {
  perform({Part::backward_weight, microbatch}, {}, [&](const Given& /*given*/) {
    stage_->backward_weight(microbatch);
    return Stage::Forward{};
  });
}

void ReplayedStage::finish_step() {
  perform({Part::end, 0}, {}, [&](const Given& /*given*/) {
    stage_->finish_step();
    return Stage::Forward{};
  });
}

}  // namespace penstock
