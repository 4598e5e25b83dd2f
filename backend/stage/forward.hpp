// The forward of one microbatch through one stage.
#pragma once

#include <optional>

#include "backend/stage/backward/leaf.hpp"
#include "backend/stage/held.hpp"
#include "backend/stage/recipe/constants.hpp"
#include "backend/stage/stage.hpp"

namespace penstock {

/// Fills `held` with what the backward needs; without `held` it runs without autograd.
class ForwardPass {
 public:
  ForwardPass(const Recipe& recipe, Constants& constants, GradientRouter& router,
              const StepContext& context, Held* held);

  /// `commit`: writes buffer updates, once per microbatch.
  Stage::Forward run(const Values& inputs, const std::optional<at::Tensor>& target,
                     bool commit = true);

 private:
  at::Tensor& at(ValueId value) { return values_[static_cast<size_t>(value)]; }
  void bind_stored();
  void bind_inputs(const Values& inputs);
  void bind_received(ValueId value, const at::Tensor& tensor, bool gradient);
  void check_user_input(ValueId value, const at::Tensor& tensor) const;

  void run_operators();
  void run_observed(const StageOperator& op);
  void run_recorded(const StageOperator& op);
  void run_unrecorded(const StageOperator& op);
  void run_kernel(const StageOperator& op);
  ChainGraph* chain_of(const StageOperator& op);
  Leaf leaf(ValueId value);
  void add_weight_use(const StageOperator& op, WeightUse& use);
  void move_to_chain(const StageOperator& op, ChainGraph& chain);

  Values sent();
  void commit_updates();
  std::map<int, at::Tensor> outputs();
  at::Tensor whole_output(int index, const at::Tensor& own) const;
  std::optional<at::Tensor> loss(const std::optional<at::Tensor>& target);
  std::optional<at::Tensor> observed_loss(const std::optional<at::Tensor>& target);

  const Recipe& recipe_;
  Constants& constants_;
  GradientRouter& router_;
  ValueTable values_;
  const StepContext& context_;
  Held* held_;
};

}  // namespace penstock
