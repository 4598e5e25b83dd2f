// A stage that recomputes some of its segments: parts, run one after the other.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "backend/stage/recipe/store.hpp"
#include "backend/stage/stage.hpp"
#include "graph/cuts/slice.hpp"
#include "pipeline/job/job.hpp"

namespace penstock {

/// The parts of a stage, in graph order, by whether each recomputes: maximal runs of operators in
/// one segment of `StageSlice::recomputed`, or in none.
std::vector<bool> recomputed_parts(const Slicing& slicing, int stage);

/// Each part is a WholeStage. A part that recomputes keeps its inputs, and its forward runs again
/// when the backward reaches it; what the parts behind it kept is free by then. Sums of gradients
/// may differ from an undivided stage's in rounding.
class SegmentedStage : public Stage {
 public:
  /// As WholeStage.
  SegmentedStage(const Graph& graph, const Analysis& analysis, const Slicing& slicing, int stage,
                 TensorStore& store, const LossSpec& loss);

  Forward forward(int microbatch, const Values& inputs, const std::optional<at::Tensor>& target,
                  const StepContext& context) override;
  Values backward(int microbatch, const Values& gradients) override;
  Values backward_input(int microbatch, const Values& gradients) override;
  void backward_weight(int microbatch) override;
  void finish_step() override;
  void reset() override;
  void refresh() override;

  std::map<int, int> gradient_uses() const override;
  bool has_loss() const override;
  bool needs_target() const override;
  bool has_random() const override;
  at::Device device() const override;

 private:
  struct Part {
    std::unique_ptr<Stage> stage;
    std::set<ValueId> reads, sends;
    std::set<ValueId> last_reads;  // values that no later part reads
  };
  void add_part(int index, std::unique_ptr<Stage> stage);
  void find_last_reads();
  template <class Backward>
  Values backward_parts(const Values& gradients, Backward backward);

  Slicing divided_;         // the model's slicing with this stage's parts as stages
  std::set<ValueId> sent_;  // to other stages
  std::vector<Part> parts_;
};

}  // namespace penstock
