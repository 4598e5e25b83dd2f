#include "estimate/memory.hpp"

#include <algorithm>
#include <set>

#include "estimate/gradients.hpp"
#include "estimate/transients.hpp"

namespace penstock {

namespace {

void count_forward(const EstimateModel& model, const KeptMemory& kept, int64_t batch,
                   std::vector<HeldBytes>& held) {
  for (OperatorId id = 0; id < model.operators(); ++id) {
    HeldBytes& own = held[static_cast<size_t>(id)];
    for (const ValueId output : model.op(id).outputs)
      if (output >= 0) own.output += model.value(output).bytes(batch);
    own.after_forward = kept.of(id).own_bytes + kept.loss_bytes(id);
    for (const ValueId value : kept.allocated(model.op(id)))
      if (kept.is_kept(value)) own.after_forward += model.value(value).bytes(batch);
  }
}

/// Counts from the first operator on, so that each tensor counts at the last W.
void count_input(const EstimateModel& model, const KeptMemory& kept, int64_t batch,
                 std::vector<HeldBytes>& held) {
  const std::vector<ValueId> gradient_of = gradient_roots(model, batch);
  std::set<ValueId> values, gradients;
  for (OperatorId id = 0; id < model.operators(); ++id) {
    const Operator& op = model.op(id);
    if (!model.differentiated(op) || model.parameter_operands(op).empty()) continue;
    int64_t& bytes = held[static_cast<size_t>(id)].after_input;
    bytes = kept.of(id).own_bytes;
    for (const ValueId root : kept.of(id).roots)
      if (values.insert(root).second) bytes += model.value(root).bytes(batch);
    for (const ValueId output : op.outputs) {
      if (output < 0 || !model.requires_grad(output)) continue;
      const ValueId root = gradient_of[static_cast<size_t>(output)];
      if (gradients.insert(root).second) bytes += model.value(root).bytes(batch);
    }
  }
}

}  // namespace

std::vector<HeldBytes> held_bytes(const EstimateModel& model, const std::vector<Unit>& units,
                                  Loss loss, int64_t batch, bool cuda, bool float32_loss) {
  const KeptMemory kept(model, loss, batch, cuda, float32_loss);
  std::vector<HeldBytes> held(static_cast<size_t>(model.operators()));
  count_forward(model, kept, batch, held);
  count_input(model, kept, batch, held);
  for (const Unit& unit : units) {
    const std::vector<int64_t> forward = forward_transients(model, kept, unit, batch);
    const std::vector<int64_t> backward = backward_transients(model, kept, unit, loss, batch);
    for (OperatorId id = unit.begin; id < unit.end; ++id) {
      const auto at = static_cast<size_t>(id - unit.begin);
      held[static_cast<size_t>(id)].transient_forward = forward[at];
      held[static_cast<size_t>(id)].transient_backward = backward[at];
    }
  }
  return held;
}

HeldBytes held_bytes_of(const EstimateModel& model, const Unit& unit,
                        const std::vector<HeldBytes>& operators, int64_t batch) {
  HeldBytes sum;
  for (OperatorId id = unit.begin; id < unit.end; ++id) {
    const HeldBytes& held = operators[static_cast<size_t>(id)];
    sum.after_forward += held.after_forward;
    sum.after_input += held.after_input;
    sum.transient_forward = std::max(sum.transient_forward, held.transient_forward);
    sum.transient_backward = std::max(sum.transient_backward, held.transient_backward);
    for (const ValueId output : model.op(id).outputs)
      if (output >= 0 && model.last_reader(output) >= unit.end)
        sum.output += model.value(output).bytes(batch);
  }
  return sum;
}

}  // namespace penstock
