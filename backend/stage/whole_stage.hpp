// A stage that runs undivided, and recomputes all of its forward or none of it.
#pragma once

#include <memory>

#include "backend/stage/recipe/store.hpp"
#include "backend/stage/stage.hpp"
#include "graph/cuts/slice.hpp"
#include "pipeline/job/job.hpp"

namespace penstock {

class WholeStage : public Stage {
 public:
  /// `store` must hold the stage's tensors; all references outlive the stage. `loss` is computed by
  /// the stage that produces the model's first output.
  /// `recompute`: a forward keeps only its inputs, and the backward runs it again first. It draws
  /// the same random numbers and leaves buffers alone; it reads buffers as they were then.
  /// `named`: the stage that messages name, where this is a part of one; -1: `stage`. Throws
  /// InputError for an operator that LibTorch does not have or that changes a parameter.
  WholeStage(const Graph& graph, const Analysis& analysis, const Slicing& slicing, int stage,
             TensorStore& store, const LossSpec& loss, bool recompute = false, int named = -1);
  ~WholeStage() override;

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
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
