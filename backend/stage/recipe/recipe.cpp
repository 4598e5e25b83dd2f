#include "backend/stage/recipe/recipe.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "graph/sharding/collectives.hpp"

namespace penstock {
namespace {

/// A value with several consumers is one entry: a gradient comes back if one of them sends it.
std::map<ValueId, bool> crossings(const Slicing& slicing, int StageEdge::*end, int stage) {
  std::map<ValueId, bool> result;
  for (const StageEdge& edge : slicing.edges) {
    if (edge.*end != stage) continue;
    for (const Crossing& crossing : edge.values) {
      bool& gradient = result[crossing.value];
      gradient = gradient || crossing.carries_gradient;
    }
  }
  return result;
}

}  // namespace

Recipe::Recipe(const Graph& whole, const Analysis& analysis, const Slicing& slicing, int index,
               TensorStore& tensors, const LossSpec& kind, int named)
    : graph(whole),
      slice(slicing.stages.at(static_cast<size_t>(index))),
      store(tensors),
      stage(named < 0 ? index : named),
      loss(kind),
      roles(assign_roles(whole, analysis, slicing, index, tensors)),
      sent(crossings(slicing, &StageEdge::producer, index)),
      received(crossings(slicing, &StageEdge::consumer, index)),
      has_loss(std::ranges::count(slice.outputs, 0) > 0),
      classes(sharding::split_classes(whole)) {
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const int tensor = graph.values[v].tensor;
    if (graph.values[v].kind != Value::Kind::tensor) continue;
    if (std::ranges::count(slice.tensors, tensor) > 0) stored.push_back(static_cast<ValueId>(v));
  }
  plan_releases();
}

ValueId Recipe::first_output() const {
  if (const std::optional<ValueId> output = graph.first_output()) return *output;
  throw InputError(graph.path, "the model's first output is not a tensor, so there is no loss",
                   "return the tensor that the loss is computed from first");
}

std::set<ValueId> Recipe::needed_at_end() const {
  std::set<ValueId> needed;
  for (const auto& [value, gradient] : sent) needed.insert(value);
  for (const auto& [tensor, value] : roles.updates) needed.insert(value);
  for (const int output : slice.outputs) {
    const auto* ref = std::get_if<TensorRef>(&graph.outputs[static_cast<size_t>(output)].value);
    if (ref != nullptr) needed.insert(ref->value);
  }
  return needed;
}

/// A value is released after its last reader, or after its producer if nothing reads it.
void Recipe::plan_releases() {
  const std::set<ValueId> needed = needed_at_end();
  std::map<ValueId, size_t> last;
  for (size_t k = 0; k < roles.operators.size(); ++k) {
    const Operator& op = roles.operators[k].prepared.op();
    for (const ValueId v : op.reads()) last[v] = k;
    for (const ValueId v : op.outputs)
      if (v >= 0) last[v] = k;
  }
  released.resize(roles.operators.size());
  for (const auto& [value, k] : last) {
    if (!needed.contains(value)) released[k].push_back(value);
  }
}

}  // namespace penstock
