#include "simulator/costs/recompute_costs.hpp"

#include <algorithm>
#include <set>

namespace penstock {

namespace {

/// A part of the stage that is kept or made again as one.
struct StagePart {
  bool again = false;
  double forward_s = 0, forward_host_s = 0;
  int64_t saved_bytes = 0, saved_weight_bytes = 0;
  int64_t transient_forward_bytes = 0, transient_backward_bytes = 0;

  void add(const OperatorCost& cost) {
    forward_s += cost.times.forward.mean_s;
    forward_host_s += cost.times.forward.host_s;
    saved_bytes += cost.held.after_forward;
    saved_weight_bytes += cost.held.after_input;
    transient_forward_bytes = std::max(transient_forward_bytes, cost.held.transient_forward);
    transient_backward_bytes = std::max(transient_backward_bytes, cost.held.transient_backward);
  }
};

/// The segment that an operator lies in; segments.size() where it is kept.
size_t segment_of(const std::vector<Segment>& segments, OperatorId op) {
  const auto found =
      std::ranges::find_if(segments, [&](const Segment& segment) { return segment.contains(op); });
  return static_cast<size_t>(found - segments.begin());
}

/// In the order of the forward: each recomputed segment, and what lies between two of them.
std::vector<StagePart> parts_of(const StageSlice& slice, const MicrobatchCosts& measured) {
  std::vector<StagePart> parts;
  size_t previous = slice.recomputed.size() + 1;  // none
  for (const OperatorId op : slice.operators) {
    const size_t segment = segment_of(slice.recomputed, op);
    if (segment != previous) parts.push_back({.again = segment < slice.recomputed.size()});
    previous = segment;
    parts.back().add(measured.operators[static_cast<size_t>(op)]);
  }
  return parts;
}

/// Of the values that recomputed segments hand to other parts of their stage; each once.
int64_t handed_bytes(const Graph& model, const Slicing& slicing, int stage, int64_t microbatch) {
  const StageSlice& slice = slicing.stages[static_cast<size_t>(stage)];
  std::set<ValueId> handed;
  int64_t bytes = 0;
  for (const OperatorId op : slice.operators) {
    for (const ValueId read : model.operators[static_cast<size_t>(op)].reads()) {
      const Value& value = model.values[static_cast<size_t>(read)];
      if (value.producer < 0 ||
          slicing.stage_of_operator[static_cast<size_t>(value.producer)] != stage) {
        continue;
      }
      const size_t from = segment_of(slice.recomputed, value.producer);
      if (from == slice.recomputed.size() || from == segment_of(slice.recomputed, op)) continue;
      if (handed.insert(read).second) bytes += value.bytes(microbatch);
    }
  }
  return bytes;
}

/// Is the loss, which comes after the model's first output, computed again?
bool makes_loss_again(const Graph& model, const Slicing& slicing, int stage) {
  const TensorRef* output = std::get_if<TensorRef>(&model.outputs.front().value);
  const OperatorId op =
      output ? model.values[static_cast<size_t>(output->value)].producer : OperatorId{-1};
  if (op < 0 || slicing.stage_of_operator[static_cast<size_t>(op)] != stage) return false;
  const auto& segments = slicing.stages[static_cast<size_t>(stage)].recomputed;
  return segment_of(segments, op) < segments.size();
}

}  // namespace

RecomputeCosts recompute_costs(const Graph& model, const Slicing& slicing, int stage,
                               const MicrobatchCosts& measured, bool split_backward) {
  const StageSlice& slice = slicing.stages[static_cast<size_t>(stage)];
  const std::vector<StagePart> parts = parts_of(slice, measured);
  RecomputeCosts costs;
  costs.saved_bytes = handed_bytes(model, slicing, stage, measured.microbatch);
  for (const StagePart& part : parts) {
    const int64_t made = part.again ? part.saved_bytes : 0;
    costs.transient_forward_bytes =
        std::max({costs.transient_forward_bytes, part.transient_forward_bytes, made});
    if (part.again) {
      costs.forward_s += part.forward_s;
      costs.forward_host_s += part.forward_host_s;
    } else {
      costs.saved_bytes += part.saved_bytes;
    }
  }
  int64_t freed = 0;  // by the backwards of later parts
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const int64_t made = part->again ? part->saved_bytes : 0;
    const int64_t most = made + part->transient_backward_bytes - freed;
    if (most > costs.transient_backward_bytes) {
      costs.transient_backward_bytes = most;
      costs.remade_bytes = std::min(made, most);
    }
    if (!part->again) freed += part->saved_bytes;
    if (split_backward) freed -= part->saved_weight_bytes;
  }
  if (makes_loss_again(model, slicing, stage)) {
    costs.forward_s += measured.loss_forward.mean_s;
    costs.forward_host_s += measured.loss_forward.host_s;
  }
  return costs;
}

}  // namespace penstock
