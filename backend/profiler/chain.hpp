// The whole model as a chain of stages in one process, in training order, with the clock (on a GPU:
// events in place, read at the end, or the kernels' own records) and the memory counter read around
// every stage: F of all, then B in reverse, or I in reverse and then W in reverse. A chain of one
// stage is the whole model at once.
#pragma once

#include <memory>
#include <vector>

#include "backend/device/device.hpp"
#include "backend/profiler/batch.hpp"
#include "backend/profiler/timing/stopwatch.hpp"
#include "backend/stage/stage.hpp"

namespace penstock::profiler {

/// What one microbatch took in one stage; the backward whole or split.
struct StageTimes {
  Seconds forward, backward, backward_input, backward_weight;
};

/// Bytes that one microbatch holds in one stage (as pipeline/profile/profile.hpp says).
struct StageBytes {
  int64_t after_forward = 0;  // allocated by F and still held when all stages have run F
  int64_t after_input = 0;    // what W sets free
  int64_t transient_forward = 0,
          transient_backward = 0;  // peak above the larger of before and after
};

/// What one microbatch took in each stage.
struct ChainRun {
  std::vector<StageTimes> times;
  std::vector<StageBytes> bytes;
  double loss = 0;
  bool traced = false;    // the device recorded, which slows its host
  bool recorded = false;  // and its records are where the times come from
};

class Chain {
 public:
  /// `begins` as graph/cuts/slice.hpp: interval_stages takes them. The store outlives the chain.
  Chain(const Graph& graph, const Analysis& analysis, const std::vector<OperatorId>& begins,
        TensorStore& store, Loss loss, ComputeDevice& device = cpu_device());

  /// One microbatch, forward and backward; `split`: I and W instead of B; `traced`: by the records
  /// of a device that has them. Gradients are added to the store. Throws what the stages throw.
  ChainRun run(const Batch& batch, const StepContext& context, bool split, bool traced = false);

  /// Forgets a run that failed.
  void reset();

  int stages() const { return static_cast<int>(stages_.size()); }
  const Slicing& slicing() const { return slicing_; }
  /// How often the device's records were lost.
  int lost() const { return watch_.lost(); }
  /// The stage that computes the loss.
  int loss_stage() const;

 private:
  /// Bytes held before and after something, and the most that it held above both.
  struct Level {
    int64_t before = 0, after = 0, transient = 0;
  };
  template <class F>
  Level observe(Seconds& seconds, F&& action);
  void forward(const Batch& batch, const StepContext& context, ChainRun& run);
  void backward(ChainRun& run, bool split);
  void backward_weight(ChainRun& run);
  Values gradients_of(int stage, Values& pending) const;

  ComputeDevice& device_;
  Stopwatch watch_;
  Slicing slicing_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<std::vector<ValueId>> received_;  // per stage: values from earlier stages
  std::vector<std::vector<ValueId>> sent_;      // per stage: values that carry a gradient back
  std::vector<int> stage_of_value_;             // producer of a value that crosses, else -1
  at::Tensor loss_;                             // of the run under way
  std::vector<int> consumers_;                  // stages that receive a value
};

}  // namespace penstock::profiler
