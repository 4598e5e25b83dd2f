// Steps that leave nothing behind but memory that is asked for, kernels that are loaded, and
// recordings.
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "backend/executor/dry.hpp"
#include "backend/executor/executor.hpp"
#include "pipeline/job/parameters.hpp"

namespace penstock {

Replaying Executor::warm_up(int64_t step, CudaGraphs graphs) {
  std::map<int, at::Tensor> buffers;  // that the model updates in each forward
  for (const BufferUpdate& update : model_.graph.updates) {
    if (!store_->indices().contains(update.tensor)) continue;
    buffers[update.tensor] = store_->tensor(update.tensor).clone();
  }
  const auto dry = make_dry(communicator_);
  exchange_.use(*dry);
  ask_for_memory(step);
  Replaying replaying;
  if (graphs != CudaGraphs::never) replaying = record(step, graphs);
  exchange_.use(communicator_);
  const at::NoGradGuard no_grad;
  for (const auto& [index, kept] : buffers) store_->tensor(index).copy_(kept);
  return replaying;
}

/// Dry steps until one asks for no more: blocks that the allocator has divided may not fit again.
void Executor::ask_for_memory(int64_t step) {
  constexpr int most = 4;
  step_ = step;
  const std::vector<at::Tensor> pinned = pin_inputs();
  for (int i = 0; i < most; ++i) {
    const int64_t before = device_.allocations();
    dry_step(step);
    if (device_.allocations() == before) return;
  }
}

/// The inputs of all microbatches at once, in memory from which a GPU reads: a host that runs ahead
/// fills as much before the first is read, and to ask for it then would wait for receives that
/// spin.
std::vector<at::Tensor> Executor::pin_inputs() const {
  std::vector<at::Tensor> pinned;
  if (device_.where().is_cpu()) return pinned;
  const int64_t size = model_.plan.microbatch;
  for (int microbatch = 0; microbatch < model_.plan.microbatches; ++microbatch) {
    const auto pin = [&](const std::string& name) {
      pinned.push_back(data_.read(name, first_sample(microbatch), size).pin_memory());
    };
    for (const auto& [index, stage] : stages_) {
      for (const ValueId input : model_.slicing.stages[index].user_inputs)
        pin(model_.graph.values[input].name);
      if (training_ && stage->needs_target()) pin(kTarget);
    }
  }
  return pinned;
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
  if (!device_.make_recorder()) return "this device records nothing";
  for (const auto& [index, stage] : stages_) {
    if (!stage->has_random()) continue;
    return "stage " + std::to_string(index) + " draws random numbers, others in each step";
  }
  return "";
}

Replaying Executor::record(int64_t step, CudaGraphs graphs) {
  Replaying result;
  result.why_not = no_recordings();
  if (result.why_not.empty()) result.why_not = try_recordings(step, graphs, result);
  result.on = result.why_not.empty();
  if (!result.on && recorder_) {
    forget_recordings();
    dry_step(step);  // asks for the memory again that it takes without
  }
  return result;
}

/// Why the steps are not to be replayed; "" where they are.
std::string Executor::try_recordings(int64_t step, CudaGraphs graphs, Replaying& times) {
  const bool always = graphs == CudaGraphs::always;
  double issued_s = 0;
  times.run_s = seconds_on(device_, [&] { issued_s = dry_step(step); });
  if (!always && !worth_recording(issued_s, times.run_s))
    return "the host is ahead of the GPU without them";
  times.run_s = std::min(times.run_s, least_dry_step_s(step));
  try {
    record_step(step);
    dry_step(step);  // asks for the memory of what goes in and out
    times.replayed_s = least_dry_step_s(step);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  if (always) return "";
  if (times.replayed_s >= times.run_s) return "a step of them takes longer";
  // The recordings' own memory is of no use to others.
  if (device_.available_bytes() - recorder_->unheld_bytes() < missing_state_bytes())
    return "they leave OPT no memory";
  return "";
}

double Executor::least_dry_step_s(int64_t step) {
  double least_s = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i)
    least_s = std::min(least_s, seconds_on(device_, [&] { dry_step(step); }));
  return least_s;
}

/// What the first OPT asks for.
int64_t Executor::missing_state_bytes() {
  int64_t bytes = 0;
  for (const int tensor : store_->indices()) {
    if (!trained_.contains(tensor) || !steps(tensor)) continue;
    if (optimizer_.states().contains(tensor)) continue;
    const StoredTensor& stored = model_.graph.tensors[tensor];
    bytes += training_bytes(model_.plan.job, stored) - gradient_bytes(model_.plan.job, stored);
  }
  return bytes;
}

/// What the stages took when they ran is given back first: it is asked for again by the recordings.
void Executor::record_step(int64_t step) {
  store_->drop_gradients();
  device_.give_back_memory();
  recorder_ = device_.make_recorder();
  for (auto& [index, stage] : stages_) stage->record(*recorder_);
  dry_actions(step);
  replayed_gradients_ = store_->gradients();
  for (auto& [index, stage] : stages_) stage->replay();
}

void Executor::forget_recordings() {
  if (!recorder_) return;
  for (auto& [index, stage] : stages_) stage->run();
  replayed_gradients_.clear();
  store_->drop_gradients();
  recorder_.reset();
  device_.give_back_memory();
}

}  // namespace penstock
