#include "simulator/costs/recompute_costs.hpp"

#include <algorithm>
#include <set>

#include "simulator/costs/stage_terms.hpp"

namespace penstock {

namespace {

/// A part of the stage that is kept or recomputed as one.
struct StagePart {
  bool recomputed = false;
  OperatorSums sums = {};
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
    if (segment != previous) parts.push_back({.recomputed = segment < slice.recomputed.size()});
    previous = segment;
    parts.back().sums.add(measured.operators[static_cast<size_t>(op)]);
  }
  return parts;
}

/// Bytes of the values that recomputed segments hand to other parts of their stage; each once.
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
                               const MicrobatchCosts& measured, bool split_backward) {
  const StageSlice& slice = slicing.stages[static_cast<size_t>(stage)];
  const std::vector<StagePart> parts = parts_of(slice, measured);
  RecomputeCosts costs;
  costs.saved_bytes = handed_bytes(model, slicing, stage, measured.microbatch);
  for (const StagePart& part : parts) {
    const int64_t remade = part.recomputed ? part.sums.saved_bytes : 0;
    costs.transient_forward_bytes =
        std::max({costs.transient_forward_bytes, part.sums.transient_forward_bytes, remade});
    if (part.recomputed) {
      costs.forward_s += part.sums.forward.device_s;
      costs.forward_host_s += part.sums.forward.host_s;
    } else {
      costs.saved_bytes += part.sums.saved_bytes;
    }
  }
  int64_t freed = 0;  // by the backwards of later parts
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const int64_t remade = part->recomputed ? part->sums.saved_bytes : 0;
    const int64_t bytes = remade + part->sums.transient_backward_bytes - freed;
    if (bytes > costs.transient_backward_bytes) {
      costs.transient_backward_bytes = bytes;
      costs.remade_bytes = std::min(remade, bytes);
    }
    if (!part->recomputed) freed += part->sums.saved_bytes;
    if (split_backward) freed -= part->sums.saved_weight_bytes;
  }
  if (recomputes_loss(model, slicing, stage)) {
    costs.forward_s += measured.loss_forward.mean_s;
    costs.forward_host_s += measured.loss_forward.host_s;
  }
  return costs;
}

}  // namespace penstock
