#include "simulator/costs/recompute_costs.hpp"

#include <algorithm>

#include "simulator/costs/stage_terms.hpp"

namespace penstock {

namespace {

/// Is the loss, which comes after the model's first output, recomputed?
bool recomputes_loss(const Graph& model, const Slicing& slicing, int stage) {
  const std::optional<ValueId> output = model.first_output();
  const OperatorId op = output ? model.values[static_cast<size_t>(*output)].producer : -1;
  if (op < 0 || slicing.stage_of_operator[static_cast<size_t>(op)] != stage) return false;
  const auto& segments = slicing.stages[static_cast<size_t>(stage)].recomputed;
  return segment_of(segments, op) < segments.size();
}

}  // namespace

RecomputeCosts recompute_costs(const Graph& model, const Slicing& slicing, int stage,
                               const MicrobatchCosts& measured) {
  const StageSlice& slice = slicing.stages[static_cast<size_t>(stage)];
  OperatorSums sums;
  for (const OperatorId op : slice.operators)
    if (segment_of(slice.recomputed, op) < slice.recomputed.size())
      sums.add(measured.operators[static_cast<size_t>(op)]);
  RecomputeCosts costs{sums.forward.device_s, sums.forward.host_s};
  if (recomputes_loss(model, slicing, stage)) {
    costs.forward_s += measured.loss_forward.mean_s;
    costs.forward_host_s += measured.loss_forward.host_s;
  }
  return costs;
}

}  // namespace penstock
