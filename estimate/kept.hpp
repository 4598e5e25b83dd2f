// Memory of a microbatch that is kept for the backward, and the operators that keep it.
#pragma once

#include <vector>

#include "estimate/model.hpp"
#include "pipeline/job/job.hpp"

namespace penstock {

class KeptMemory {
 public:
  /// `model` outlives it. `float32_loss`: a model of bfloat16, its loss computed in float32.
  KeptMemory(const EstimateModel& model, Loss loss, int64_t batch, bool cuda,
             bool float32_loss = false);

  /// Memory that one operator keeps: of values, each once, and bytes of its own beside them.
  struct Kept {
    std::vector<ValueId> values;  // read or produced, whatever memory they lie in
    std::vector<ValueId> roots;
    int64_t own_bytes = 0;
  };
  const Kept& of(OperatorId id) const { return kept_[static_cast<size_t>(id)]; }
  /// The first operator that keeps this memory, the last to set it free; operators(): the loss
  /// alone; -1: nobody.
  OperatorId first_keeper(ValueId root) const { return first_keeper_[static_cast<size_t>(root)]; }
  bool is_kept(ValueId root) const { return first_keeper(root) >= 0; }
  /// The last operator that reads this memory, through whatever view, or -1.
  OperatorId last_reader(ValueId root) const { return last_reader_[static_cast<size_t>(root)]; }
  /// The operators that need memory which the backward gathers again, ascending.
  const std::vector<OperatorId>& needed_again(ValueId root) const {
    return needed_again_[static_cast<size_t>(root)];
  }
  /// Outputs of an operator that take memory of their own.
  std::vector<ValueId> allocated(const Operator& op) const;

  /// Bytes that the loss keeps itself, where this operator makes the model's first output; or 0.
  int64_t loss_bytes(OperatorId id) const { return id == loss_operator_ ? loss_bytes_ : 0; }
  /// Does the loss keep the model's first output?
  bool loss_keeps_output() const { return loss_keeps_output_; }
  bool makes_loss(OperatorId id) const { return id == loss_operator_; }

 private:
  void enter(OperatorId id, int64_t batch, bool cuda);
  void enter_loss(Loss loss, int64_t batch);

  const EstimateModel& model_;
  std::vector<Kept> kept_;
  std::vector<OperatorId> first_keeper_, last_reader_;  // by root
  std::vector<std::vector<OperatorId>> needed_again_;   // by root
  OperatorId loss_operator_ = -1;
  int64_t loss_bytes_ = 0;
  bool loss_keeps_output_ = false;
};

}  // namespace penstock
