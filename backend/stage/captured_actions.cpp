#include "backend/stage/captured_actions.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>

#include <stdexcept>
#include <utility>

namespace penstock {

namespace {

/// The memory of `tensor`, without a reference that keeps it alive.
at::Tensor borrowed(const at::Tensor& tensor) {
  return at::for_blob(tensor.data_ptr(), tensor.sizes())
      .strides(tensor.strides())
      .options(tensor.options())
      .target_device(tensor.device())
      .make_tensor();
}

/// `results` with `change` applied to each tensor.
template <class Change>
Stage::Forward mapped(const Stage::Forward& results, Change change) {
  Stage::Forward mapped;
  for (const auto& [value, tensor] : results.sent) mapped.sent[value] = change(tensor);
  if (results.loss) mapped.loss = change(*results.loss);
  for (const auto& [output, tensor] : results.outputs) mapped.outputs[output] = change(tensor);
  return mapped;
}

template <class Change>
ActionArguments mapped(const ActionArguments& arguments, Change change) {
  ActionArguments mapped;
  for (const auto& [value, tensor] : arguments.values) mapped.values[value] = change(tensor);
  if (arguments.target) mapped.target = change(*arguments.target);
  if (arguments.loss_scale) mapped.loss_scale = change(*arguments.loss_scale);
  return mapped;
}

at::Tensor cloned(const at::Tensor& tensor) { return tensor.clone(); }

}  // namespace

void CapturedActions::capture(std::unique_ptr<GraphCapture> capture) {
  forget();
  capture_ = std::move(capture);
  mode_ = Mode::capture;
}

void CapturedActions::forget() {
  mode_ = Mode::run;
  actions_.clear();
  capture_.reset();
}

Stage::Forward CapturedActions::perform(const Key& key, const ActionArguments& arguments,
                                        at::Device device, const Work& work) {
  if (mode_ == Mode::run) return work(arguments);
  if (mode_ == Mode::capture) return capture_action(key, arguments, device, work);
  const auto found = actions_.find(key);
  if (found == actions_.end())
    throw std::logic_error("an action is replayed that was not recorded");
  return replay_action(found->second, arguments);
}

/// A result on the host is known at capture, and is kept.
Stage::Forward CapturedActions::capture_action(const Key& key, const ActionArguments& arguments,
                                               at::Device device, const Work& work) {
  Action& action = actions_[key];
  const auto on_device = [&](const at::Tensor& tensor) {
    if (tensor.device() == device) return at::empty_like(tensor);
    throw std::runtime_error("the host hands a stage a value that it computed");
  };
  const auto written = [&](const at::Tensor& tensor) {
    return tensor.device() == device ? borrowed(tensor) : tensor;
  };
  action.graph = capture_->capture([&] {
    const ActionArguments own = mapped(arguments, on_device);
    action.arguments = mapped(own, borrowed);
    action.results = mapped(work(own), written);
  });
  return mapped(action.results, cloned);
}

Stage::Forward CapturedActions::replay_action(Action& action, const ActionArguments& arguments) {
  const at::NoGradGuard no_grad;
  for (auto& [value, place] : action.arguments.values) place.copy_(arguments.values.at(value));
  if (arguments.target) action.arguments.target->copy_(*arguments.target);
  if (arguments.loss_scale) action.arguments.loss_scale->copy_(*arguments.loss_scale);
  action.graph->replay();
  return mapped(action.results, cloned);
}

}  // namespace penstock
