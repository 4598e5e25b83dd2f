#include "backend/profiler/chain.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "backend/stage/make_stage.hpp"

namespace penstock::profiler {

template <class F>
void Chain::observe(Seconds& seconds, MemoryChange HeldBytes::*bytes, F&& action) {
  if (memory_ != nullptr) memory_->begin(bytes);
  watch_.time(seconds, action);
  if (memory_ != nullptr) memory_->end();
}

Chain::Chain(const Graph& graph, const Analysis& analysis, const std::vector<OperatorId>& begins,
             TensorStore& store, const LossSpec& loss, ComputeDevice& device)
    : watch_(device),
      slicing_(
          slice(graph, analysis, interval_stages(graph, begins), static_cast<int>(begins.size()))),
      received_(begins.size()),
      sent_(begins.size()),
      consumers_(graph.values.size(), 0) {
  for (int i = 0; i < static_cast<int>(begins.size()); ++i) {
    stages_.push_back(make_stage(graph, analysis, slicing_, i, store, loss));
  }
  std::set<ValueId> with_gradient;
  for (const StageEdge& edge : slicing_.edges) {
    for (const Crossing& crossing : edge.values) {
      received_[edge.consumer].push_back(crossing.value);
      ++consumers_[crossing.value];
      if (crossing.carries_gradient && with_gradient.insert(crossing.value).second) {
        sent_[edge.producer].push_back(crossing.value);
      }
    }
  }
}

int Chain::loss_stage() const {
  const auto found =
      std::ranges::find_if(stages_, [](const auto& stage) { return stage->has_loss(); });
  return static_cast<int>(found - stages_.begin());
}

ChainRun Chain::run(const Batch& batch, const StepContext& context, bool split, bool traced) {
  watch_.begin(traced);
  ChainRun run{.times = std::vector<MeasuredTimes>(stages_.size()), .traced = watch_.traced()};
  forward(batch, context, run);
  backward(run, split);
  if (split) backward_weight(run);
  for (const auto& stage : stages_) stage->finish_step();
  watch_.finish();
  run.recorded = watch_.recorded();
  if (loss_.defined()) run.loss = std::exchange(loss_, {}).item<double>();
  return run;
}

void Chain::trace_memory(const Batch& batch, StepContext context, bool split, MemoryTrace& memory) {
  if (stages() > 1) throw std::logic_error("the memory of several stages is not traced");
  memory_ = &memory;
  context.observer = &memory;
  try {
    run(batch, context, split);
  } catch (...) {
    memory_ = nullptr;
    throw;
  }
  memory_ = nullptr;
}

void Chain::reset() {
  for (const auto& stage : stages_) stage->reset();
  loss_.reset();
}

void Chain::forward(const Batch& batch, const StepContext& context, ChainRun& run) {
  Values live;
  std::vector<int> uses = consumers_;
  for (int s = 0; s < stages(); ++s) {
    Values inputs;
    for (const ValueId value : slicing_.stages[s].user_inputs)
      inputs[value] = batch.inputs.at(value);
    for (const ValueId value : received_[s]) inputs[value] = live.at(value);
    Stage::Forward result;
    observe(run.times[s].forward, &HeldBytes::forward, [&] {
      result = stages_[s]->forward(
          0, inputs, stages_[s]->needs_target() ? batch.target : std::nullopt, context);
    });
    inputs.clear();
    if (result.loss) loss_ = *result.loss;
    live.merge(result.sent);
    // After its last reader a value stays only where a stage keeps it for the backward.
    for (const ValueId value : received_[s]) {
      if (--uses[value] == 0) live.erase(value);
    }
  }
}

Values Chain::gradients_of(int stage, Values& pending) const {
  Values gradients;
  for (const ValueId value : sent_[stage]) {
    auto node = pending.extract(value);
    if (!node.empty()) gradients.insert(std::move(node));
  }
  return gradients;
}

void Chain::backward(ChainRun& run, bool split) {
  Values pending;  // gradients of crossing values, summed over the consumers that have run
  for (int s = stages() - 1; s >= 0; --s) {
    const Values gradients = gradients_of(s, pending);
    Values inputs;
    Seconds& seconds = split ? run.times[s].backward_input : run.times[s].backward;
    const auto bytes = split ? &HeldBytes::backward_input : &HeldBytes::backward;
    observe(seconds, bytes, [&] {
      inputs =
          split ? stages_[s]->backward_input(0, gradients) : stages_[s]->backward(0, gradients);
    });
    for (auto& [value, gradient] : inputs) {
      const auto [place, fresh] = pending.try_emplace(value, gradient);
      if (!fresh) place->second = place->second + gradient;
    }
  }
}

void Chain::backward_weight(ChainRun& run) {
  for (int s = stages() - 1; s >= 0; --s) {
    observe(run.times[s].backward_weight, &HeldBytes::backward_weight,
            [&] { stages_[s]->backward_weight(0); });
  }
}

}  // namespace penstock::profiler
