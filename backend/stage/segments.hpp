// A stage as the parts that it recomputes and those that it keeps, run one after the other.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "backend/stage/stage.hpp"

namespace penstock {

/// What Stage promises, for a stage of which segments recompute (`StageSlice::recomputed`). A
/// segment that recomputes keeps what it is given, and its forward runs again when the backward has
/// come to it; what the segments behind it kept is free by then. Sums of gradients may differ from
/// an undivided stage's in rounding.
class SegmentedStage {
 public:
  SegmentedStage(const Graph& graph, const Analysis& analysis, const Slicing& slicing, int stage,
                 TensorStore& store, Loss loss);

  ~SegmentedStage();

  Stage::Forward forward(int microbatch, const Values& inputs,
                         const std::optional<at::Tensor>& target, const StepContext& context);
  Values backward(int microbatch, const Values& gradients);
  Values backward_input(int microbatch, const Values& gradients);
  void backward_weight(int microbatch);
  void finish_step();

  /// As Stage::reset.
  void reset();

  bool has_loss() const;
  bool needs_target() const;
  /// Does an operator draw random numbers?
  bool has_random() const;
  at::Device device() const;

 private:
  struct Part {
    std::unique_ptr<Stage> stage;
    std::set<ValueId> reads, sends;
    std::set<ValueId> last;  // of what it reads: what no later part does
  };
  template <class Backward>
  Values backwards(const Values& gradients, Backward backward);

  std::unique_ptr<const Slicing> divided_;  // the model's, with this stage's parts as stages
  std::set<ValueId> sent_;                  // to other stages
  std::vector<Part> parts_;
};

}  // namespace penstock
