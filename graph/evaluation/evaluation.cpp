#include "graph/evaluation/evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "graph/operators/facts.hpp"

namespace penstock {
namespace {

[[noreturn]] void refuse(const Graph& graph, const std::string& problem, const std::string& cure) {
  throw InputError(graph.path, "cannot be run in evaluation mode: " + problem, cure);
}

void require_one_mode(const Graph& graph) {
  constexpr const char* cure =
      "Export it with tools/export_model.py, which compares it with model.eval().";
  const auto random = std::ranges::find_if(graph.operators, is_random);
  if (random != graph.operators.end())
    refuse(graph,
           fmt::format("operator {} ({}) draws random numbers, and the file does not say what it "
                       "does without",
                       full_name(*random), random->name),
           cure);
  if (!graph.updates.empty())
    refuse(graph,
           fmt::format("it updates its buffer `{}`, and the file does not say what it computes "
                       "without",
                       graph.tensors[static_cast<size_t>(graph.updates.front().tensor)].name),
           cure);
}

void set(Operator& op, const Argument& changed) {
  const auto found = std::ranges::find(op.arguments, changed.name, &Argument::name);
  if (found == op.arguments.end()) {
    op.arguments.push_back(changed);
  } else {
    found->value = changed.value;
  }
}

}  // namespace

Graph in_evaluation(Graph graph) {
  if (!graph.evaluation) {
    require_one_mode(graph);
    return graph;
  }
  if (!graph.evaluation->differs.empty())
    refuse(graph, graph.evaluation->differs,
           "Let its forward do the same in both modes but for dropout and the norms of torch.nn, "
           "and export it again; or leave evaluation out.");
  for (const Evaluation::Change& change : graph.evaluation->changes) {
    const auto op = std::ranges::find(graph.operators, change.op, &Operator::name);
    if (op != graph.operators.end()) set(*op, change.argument);  // a part may do without it
  }
  return graph;
}

}  // namespace penstock
