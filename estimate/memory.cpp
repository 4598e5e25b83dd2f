#include "estimate/memory.hpp"

#include <algorithm>
#include <set>

#include "estimate/gradients.hpp"
#include "estimate/transients.hpp"

namespace penstock {

namespace {

/// Bytes that each operator's W frees. Counts from the first operator on, so that each tensor
/// counts at the last W.
std::vector<int64_t> freed_by_weights(const EstimateModel& model, const KeptMemory& kept,
                                      int64_t batch) {
  std::vector<int64_t> freed(static_cast<size_t>(model.operators()), 0);
  const std::vector<ValueId> gradient_of = gradient_roots(model, batch);
  std::set<ValueId> values, gradients;
  for (OperatorId id = 0; id < model.operators(); ++id) {
    const Operator& op = model.op(id);
    if (!model.differentiated(op) || model.parameter_operands(op).empty()) continue;
    int64_t& bytes = freed[static_cast<size_t>(id)];
    bytes = kept.of(id).own_bytes;
    for (const ValueId root : kept.of(id).roots)
      if (values.insert(root).second) bytes += model.value(root).bytes(batch);
    for (const ValueId output : op.outputs) {
      if (output < 0 || !model.requires_grad(output)) continue;
      const ValueId root = gradient_of[static_cast<size_t>(output)];
      if (gradients.insert(root).second) bytes += model.value(root).bytes(batch);
    }
  }
  return freed;
}

/// As the profile numbers values (pipeline/profile/profile.hpp: ValueMemory).
ValueMemory values_of(const EstimateModel& model, const KeptMemory& kept, OperatorId id) {
  const Operator& op = model.op(id);
  std::vector<ValueId> numbered = op.reads();
  const auto reads = static_cast<int>(numbered.size());
  numbered.insert(numbered.end(), op.outputs.begin(), op.outputs.end());
  ValueMemory memory;
  for (size_t number = 0; number < numbered.size(); ++number) {
    const ValueId value = numbered[number];
    const bool loss =
        kept.makes_loss(id) && kept.loss_keeps_output() && value >= 0 && value == loss_input(model);
    const bool needed = std::ranges::count(kept.of(id).values, value) > 0 || loss;
    if (value >= 0 && needed && !model.of_parameters(value))
      memory.keeps.push_back(static_cast<int>(number));
  }
  if (!EstimateModel::is_alias(op) || reads == 0) return memory;
  for (size_t output = 0; output < op.outputs.size(); ++output)
    memory.shares.emplace_back(reads + static_cast<int>(output), 0);
  return memory;
}

}  // namespace

EstimatedMemory memory_of(const EstimateModel& model, Loss loss, int64_t batch, bool cuda,
                          bool float32_loss) {
  const KeptMemory kept(model, loss, batch, cuda, float32_loss);
  const std::vector<MemoryChange> forward = forward_changes(model, kept, batch);
  const std::vector<MemoryChange> backward = backward_changes(model, kept, loss, batch);
  const std::vector<int64_t> freed = freed_by_weights(model, kept, batch);
  EstimatedMemory memory;
  for (OperatorId id = 0; id < model.operators(); ++id) {
    const auto at = static_cast<size_t>(id);
    HeldBytes& held = memory.held.emplace_back();
    for (const ValueId output : model.op(id).outputs)
      if (output >= 0) held.output += model.value(output).bytes(batch);
    held.forward = forward[at];
    held.backward = backward[at];
    held.backward_input = backward[at].then({freed[at], freed[at]});
    held.backward_weight = {-freed[at], weight_gradient_bytes(model, model.op(id), batch)};
    memory.values.push_back(values_of(model, kept, id));
  }
  return memory;
}

HeldBytes held_bytes_of(const EstimateModel& model, const Unit& unit,
                        const std::vector<HeldBytes>& operators, int64_t batch) {
  HeldSums sums;
  int64_t output_bytes = 0;
  for (OperatorId id = unit.begin; id < unit.end; ++id) {
    sums.add(operators[static_cast<size_t>(id)]);
    for (const ValueId output : model.op(id).outputs)
      if (output >= 0 && model.last_reader(output) >= unit.end)
        output_bytes += model.value(output).bytes(batch);
  }
  return {output_bytes, sums.forward, sums.backward, sums.backward_input, sums.backward_weight};
}

}  // namespace penstock
