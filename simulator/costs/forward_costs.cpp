#include "simulator/costs/forward_costs.hpp"

#include <algorithm>
#include <optional>

#include "simulator/memory/value_lives.hpp"

namespace penstock {

namespace {

void forget_training(OperatorCost& op) {
  op.times = {.forward = op.times.forward};
  op.held = {.output = op.held.output, .forward = op.held.forward};
  op.values.keeps.clear();
  op.recompute.clear();
}

/// In training the operator that makes the first output also has the bytes that the loss keeps.
void forget_loss(const Graph& model, MicrobatchCosts& costs) {
  costs.loss_forward = {};
  const std::optional<ValueId> output = model.first_output();
  const ValueLives lives(model, costs);
  if (!output || lives.producer(*output) < 0) return;
  const OperatorId last = lives.producer(*output);
  costs.operators[static_cast<size_t>(last)].held.forward.peak -=
      std::max<int64_t>(lives.own_bytes(last), 0);
}

/// Each operator adds the values that it makes, and takes away those that it is the last to read.
void hold_to_last_readers(const Graph& model, MicrobatchCosts& costs) {
  const ValueLives lives(model, costs);
  for (OperatorCost& op : costs.operators) op.held.forward.net = 0;
  for (ValueId value = 0; value < static_cast<ValueId>(model.values.size()); ++value) {
    const OperatorId maker = lives.producer(value);
    if (maker < 0 || lives.source(value) >= 0) continue;
    costs.operators[static_cast<size_t>(maker)].held.forward.net += lives.bytes(value);
    costs.operators[static_cast<size_t>(lives.last_reader(value))].held.forward.net -=
        lives.bytes(value);
  }
  for (OperatorCost& op : costs.operators)
    op.held.forward.peak = std::max({op.held.forward.peak, op.held.forward.net, int64_t{0}});
}

}  // namespace

Profile forward_costs(Profile training, const Graph& model) {
  training.groups.clear();  // completed for training: for inference others would be cheapest
  for (MicrobatchCosts& costs : training.microbatches) {
    if (costs.operators.size() != model.operators.size()) continue;  // whoever plans says so
    forget_loss(model, costs);
    for (OperatorCost& op : costs.operators) forget_training(op);
    hold_to_last_readers(model, costs);
    for (UnitCost& unit : costs.units) unit.times = {.forward = unit.times.forward};
  }
  return training;
}

}  // namespace penstock
