// A stage whose actions can be captured as graphs and replayed.
#pragma once

#include <memory>
#include <utility>

#include "backend/stage/captured_actions.hpp"
#include "backend/stage/stage.hpp"

namespace penstock {

/// Another stage, whose actions `captured` runs, captures or replays; results are the same.
class ReplayedStage : public Stage {
 public:
  /// `index`: the stage's number, by which `captured`, which outlives it, knows its actions.
  ReplayedStage(std::unique_ptr<Stage> stage, int index, CapturedActions& captured)
      : stage_(std::move(stage)), index_(index), captured_(captured) {}

  Forward forward(int microbatch, const Values& inputs, const std::optional<at::Tensor>& target,
                  const StepContext& context) override;
  Values backward(int microbatch, const Values& gradients) override;
  Values backward_input(int microbatch, const Values& gradients) override;
  void backward_weight(int microbatch) override;
  void finish_step() override;
  void reset() override { stage_->reset(); }
  void refresh() override { stage_->refresh(); }

  std::map<int, int> gradient_uses() const override { return stage_->gradient_uses(); }
  bool has_loss() const override { return stage_->has_loss(); }
  bool needs_target() const override { return stage_->needs_target(); }
  bool has_random() const override { return stage_->has_random(); }
  at::Device device() const override { return stage_->device(); }

 private:
  Forward perform(CapturedActions::Kind kind, int microbatch, const ActionArguments& arguments,
                  const CapturedActions::Work& work);

  std::unique_ptr<Stage> stage_;
  int index_;
  CapturedActions& captured_;
};

}  // namespace penstock
