#include "simulator/costs/recompute_costs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/error.hpp"
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

/// Null where it has none of that name.
const RecomputeChoice* choice_of(const OperatorCost& layer, const std::string& name) {
  const auto found = std::ranges::find(layer.recompute, name, &RecomputeChoice::name);
  return found == layer.recompute.end() ? nullptr : &*found;
}

/// The backward makes again what the forward does not keep, and I leaves it to W.
void free_bytes(const RecomputeChoice& choice, HeldBytes& held) {
  const int64_t freed = choice.freed_bytes;
  const auto remade = [&](MemoryChange& back, int64_t working) {
    back.net += freed;
    back.peak = std::max({int64_t{0}, back.net, back.peak + working});
  };
  held.forward.net -= freed;
  held.forward.peak -= freed;
  remade(held.backward, choice.working_bytes);
  remade(held.backward_input, std::max(freed, choice.working_bytes));
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
  for (const auto& [op, name] : slice.choices) costs.forward_s += choice_s(slice, measured, op);
  if (recomputes_loss(model, slicing, stage)) {
    costs.forward_s += measured.loss_forward.mean_s;
    costs.forward_host_s += measured.loss_forward.host_s;
  }
  return costs;
}

double choice_s(const StageSlice& slice, const MicrobatchCosts& measured, OperatorId op) {
  const auto chosen = slice.choices.find(op);
  if (chosen == slice.choices.end()) return 0;
  return choice_of(measured.operators[static_cast<size_t>(op)], chosen->second)->time_s;
}

MicrobatchCosts with_choices(MicrobatchCosts measured, const Slicing& slicing,
                             const std::string& place) {
  for (const StageSlice& stage : slicing.stages) {
    for (const auto& [op, name] : stage.choices) {
      OperatorCost& layer = measured.operators[static_cast<size_t>(op)];
      if (const RecomputeChoice* choice = choice_of(layer, name)) {
        free_bytes(*choice, layer.held);
        continue;
      }
      std::vector<std::string> names;
      for (const RecomputeChoice& choice : layer.recompute) names.push_back(choice.name);
      throw InputError(place, fmt::format("`{}` has no choice `{}`", layer.name, name),
                       names.empty() ? "It recomputes nothing: correct the plan."
                                     : fmt::format("Its choices: {}.", fmt::join(names, ", ")));
    }
  }
  return measured;
}

}  // namespace penstock
