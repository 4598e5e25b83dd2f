// The whole model as a chain of stages in one process, run in training order (F of all, then B in
// reverse, or I in reverse and then W in reverse) and timed stage by stage: by the clock (on a GPU:
// by events, or by the device's records of its kernels). A chain of one stage is the whole model,
// whose memory can be traced.
#pragma once

#include <memory>
#include <vector>

#include "backend/device/device.hpp"
#include "backend/profiler/batch.hpp"
#include "backend/profiler/memory_trace.hpp"
#include "backend/profiler/timing/stopwatch.hpp"
#include "backend/stage/recipe/store.hpp"
#include "backend/stage/stage.hpp"
#include "graph/cuts/slice.hpp"
#include "pipeline/job/job.hpp"

namespace penstock::profiler {

/// Times of one microbatch in one stage; the backward whole or split.
struct MeasuredTimes {
  Seconds forward, backward, backward_input, backward_weight;
};

/// One microbatch in all stages.
struct ChainRun {
  std::vector<MeasuredTimes> times;
  double loss = 0;
  bool traced = false;    // the device recorded its kernels, which slows its host
  bool recorded = false;  // and the times are by its records
};

class Chain {
 public:
  /// `begins`: as interval_stages (graph/cuts/slice.hpp) takes them. The store outlives the chain.
  Chain(const Graph& graph, const Analysis& analysis, const std::vector<OperatorId>& begins,
        TensorStore& store, const LossSpec& loss, ComputeDevice& device = cpu_device());

  /// Runs forward and backward of one microbatch; `split`: I and W instead of B; `traced`: times
  /// are by the device's records, where it has them. Adds gradients to the store. Throws as stages
  /// do.
  ChainRun run(const Batch& batch, const StepContext& context, bool split, bool traced = false);
  /// The same of a chain of one stage, with its memory: of F, and of B or of I and W.
  void trace_memory(const Batch& batch, StepContext context, bool split, MemoryTrace& memory);

  /// Recovers from a run that failed.
  void reset();

  int stages() const { return static_cast<int>(stages_.size()); }
  const Slicing& slicing() const { return slicing_; }
  /// The number of runs whose records were lost.
  int lost() const { return watch_.lost(); }
  /// The stage that computes the loss.
  int loss_stage() const;

 private:
  /// Runs `action` between two readings of the clock; `seconds` is set when the run ends.
  template <class F>
  void observe(Seconds& seconds, MemoryChange HeldBytes::*bytes, F&& action);
  void forward(const Batch& batch, const StepContext& context, ChainRun& run);
  void backward(ChainRun& run, bool split);
  void backward_weight(ChainRun& run);
  Values gradients_of(int stage, Values& pending) const;

  Stopwatch watch_;
  MemoryTrace* memory_ = nullptr;  // of the current run, where it is traced
  Slicing slicing_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<std::vector<ValueId>> received_;  // per stage: values from earlier stages
  std::vector<std::vector<ValueId>> sent_;      // per stage: values that carry a gradient back
  at::Tensor loss_;                             // of the current run
  std::vector<int> consumers_;                  // stages that receive a value
};

}  // namespace penstock::profiler
