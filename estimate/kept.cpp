#include "estimate/kept.hpp"

#include <algorithm>

#include "estimate/saved.hpp"
#include "estimate/work.hpp"
#include "graph/sharding/collectives.hpp"

namespace penstock {

KeptMemory::KeptMemory(const EstimateModel& model, Loss loss, int64_t batch, bool cuda,
                       bool float32_loss)
    : model_(model),
      first_keeper_(model.graph().values.size(), -1),
      last_reader_(model.graph().values.size(), -1),
      needed_again_(model.graph().values.size()) {
  for (OperatorId id = 0; id < model.operators(); ++id) enter(id, batch, cuda);
  enter_loss(loss, batch);
  if (float32_loss) loss_bytes_ *= 2;  // of bfloat16
}

void KeptMemory::enter(OperatorId id, int64_t batch, bool cuda) {
  const Operator& op = model_.op(id);
  for (const ValueId read : op.reads()) last_reader_[static_cast<size_t>(model_.root(read))] = id;
  const SavedForBackward saved = saved_for_backward(model_, op, batch, cuda);
  Kept& kept = kept_.emplace_back();
  kept.own_bytes = saved.own_bytes;
  kept.values = saved.values;
  for (const ValueId value : saved.values) {
    const ValueId root = model_.root(value);
    if (!model_.counts(root) || std::ranges::find(kept.roots, root) != kept.roots.end()) continue;
    const OperatorId maker = model_.value(root).producer;
    if (maker >= 0 && sharding::gathers_again(model_.op(maker))) {
      needed_again_[static_cast<size_t>(root)].push_back(id);
      continue;
    }
    kept.roots.push_back(root);
    if (!is_kept(root)) first_keeper_[static_cast<size_t>(root)] = id;
  }
}

void KeptMemory::enter_loss(Loss loss, int64_t batch) {
  const ValueId input = loss_input(model_);
  if (input < 0) return;
  loss_operator_ = model_.value(input).producer;
  loss_bytes_ = saved_by_loss(model_, loss, batch);
  const ValueId root = model_.root(input);
  const bool keeps_output = loss == Loss::mse || loss == Loss::bce_with_logits;
  loss_keeps_output_ = keeps_output;
  if (keeps_output && model_.counts(root) && !is_kept(root))
    first_keeper_[static_cast<size_t>(root)] = model_.operators();
}

std::vector<ValueId> KeptMemory::allocated(const Operator& op) const {
  std::vector<ValueId> values;
  if (!model_.works(op)) return values;
  for (const ValueId output : op.outputs)
    if (output >= 0 && model_.root(output) == output && model_.counts(output))
      values.push_back(output);
  return values;
}

}  // namespace penstock
