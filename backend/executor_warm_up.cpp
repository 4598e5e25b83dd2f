// Steps that leave nothing behind but memory that is asked for, kernels that are loaded, and
// recordings.
#include <ATen/core/grad_mode.h>

#include <chrono>

#include "backend/dry.hpp"
#include "backend/executor.hpp"

namespace penstock {

Replaying Executor::warm_up(int64_t step, CudaGraphs graphs) {
  std::map<int, at::Tensor> buffers;  // that the model updates in each forward
  for (const BufferUpdate& update : model_.graph.updates) {
    if (!store_->indices().contains(update.tensor)) continue;
    buffers[update.tensor] = store_->tensor(update.tensor).clone();
  }
  const auto dry = make_dry(communicator_);
  exchange_.use(*dry);
  dry_step(step);
  Replaying replaying;
  if (graphs != CudaGraphs::never) replaying = record(step, graphs);
  exchange_.use(communicator_);
  const at::NoGradGuard no_grad;
  for (const auto& [index, kept] : buffers) store_->tensor(index).copy_(kept);
  return replaying;
}

void Executor::dry_actions(int64_t step) {
  begin(step);
  device_.fail_without_memory(false);
  for (size_t i = 0; i < actions().size(); ++i) {
    const Kind kind = actions()[i].kind;
    if (kind != Kind::reduce_grad && kind != Kind::optimizer) run(i, actions()[i]);
    exchange_.enqueued(i);
  }
  exchange_.finish_step();
  for (auto& [index, stage] : stages_) stage->finish_step();
}

/// Seconds that the host took to issue it.
double Executor::dry_step(int64_t step) {
  const auto start = std::chrono::steady_clock::now();
  dry_actions(step);
  const std::chrono::duration<double> issued = std::chrono::steady_clock::now() - start;
  communicator_.synchronise();
  outputs_.clear();
  losses_.clear();
  store_->clear_gradients();
  return issued.count();
}

/// Why this rank's steps cannot be recorded; "" where they can be tried.
std::string Executor::no_recordings() const {
  for (const auto& [index, stage] : stages_) {
    if (!stage->has_random()) continue;
    return "stage " + std::to_string(index) + " draws random numbers, others in each step";
  }
  return "";
}

Replaying Executor::record(int64_t step, CudaGraphs graphs) {
  Replaying result;
  recorder_ = device_.make_recorder();
  result.why_not = recorder_ ? no_recordings() : "this device records nothing";
  if (!result.why_not.empty()) {
    recorder_.reset();
    return result;
  }
  double issued_s = 0;
  result.run_s = seconds_on(device_, [&] { issued_s = dry_step(step); });
  if (graphs == CudaGraphs::automatic && issued_s < result.run_s / 2) {
    result.why_not = "the host is ahead of the GPU without them";
    recorder_.reset();
    return result;
  }
  try {
    record_step(step);
  } catch (const std::exception& error) {
    result.why_not = error.what();
    forget_recordings();
    dry_step(step);
    return result;
  }
  dry_step(step);  // asks for the memory of what goes in and out
  result.replayed_s = seconds_on(device_, [&] { dry_step(step); });
  result.on = graphs == CudaGraphs::always || result.replayed_s < result.run_s;
  if (!result.on) {
    result.why_not = "a step of them takes longer";
    forget_recordings();
    dry_step(step);
  }
  return result;
}

/// What the stages took when they ran is given back first: it is asked for again by the recordings.
void Executor::record_step(int64_t step) {
  store_->drop_gradients();
  device_.give_back_memory();
  for (auto& [index, stage] : stages_) stage->record(*recorder_);
  dry_actions(step);
  replayed_gradients_ = store_->gradients();
  for (auto& [index, stage] : stages_) stage->replay();
}

void Executor::forget_recordings() {
  for (auto& [index, stage] : stages_) stage->run();
  replayed_gradients_.clear();
  store_->drop_gradients();
  recorder_.reset();
  device_.give_back_memory();
}

}  // namespace penstock
