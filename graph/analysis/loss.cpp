#include "graph/analysis/loss.hpp"

#include <algorithm>

#include "graph/operators/facts.hpp"

namespace penstock {

std::set<int> tensors_of_loss(const Graph& graph, const Analysis& analysis) {
  std::vector<bool> reaches(graph.values.size(), std::ranges::any_of(graph.operators, is_mutating));
  const auto passes = [&](ValueId id) { return id >= 0 && analysis.requires_grad[id]; };
  const std::optional<ValueId> loss = graph.first_output();
  if (loss && passes(*loss)) reaches[*loss] = true;
  for (auto op = graph.operators.rbegin(); op != graph.operators.rend(); ++op) {
    const bool needed =
        std::ranges::any_of(op->outputs, [&](ValueId id) { return passes(id) && reaches[id]; });
    if (!needed) continue;
    for (const ValueId read : op->reads())
      if (passes(read)) reaches[read] = true;
  }
  std::set<int> tensors;
  for (size_t id = 0; id < graph.values.size(); ++id)
    if (reaches[id] && passes(static_cast<ValueId>(id)) &&
        graph.values[id].kind == Value::Kind::tensor)
      tensors.insert(graph.values[id].tensor);
  return tensors;
}

}  // namespace penstock
