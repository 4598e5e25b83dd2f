#include "backend/profiler/grouping.hpp"

#include <algorithm>

#include "graph/operators/facts.hpp"
#include "graph/operators/flops.hpp"

namespace penstock::profiler {

namespace {

/// Does this operator take time of its own in every microbatch? Views, assertions and operators
/// that run once (constants, parameter-derived values) do not.
bool costs_time(const Graph& graph, const Analysis& analysis, OperatorId id) {
  const Operator& op = graph.operators[id];
  if (is_view(op) || is_assertion(op)) return false;
  return std::ranges::any_of(op.outputs, [&](ValueId value) {
    return value >= 0 && !analysis.constant[value] && !analysis.parameter_derived[value];
  });
}

}  // namespace

std::vector<OperatorId> group_begins(const Graph& graph, const Analysis& analysis,
                                     const std::vector<Unit>& units, int max_groups) {
  const int operators = static_cast<int>(graph.operators.size());
  const int together = std::max(1, (operators + max_groups - 1) / max_groups);
  const std::vector<bool> allowed = allowed_cuts(graph);
  std::vector<OperatorId> begins;
  for (const Unit& unit : units) {
    begins.push_back(unit.begin);
    OperatorId last = unit.end - 1;  // costs time: the views after it belong to its group
    while (last > unit.begin && !costs_time(graph, analysis, last)) --last;
    int counted = 0;
    for (OperatorId op = unit.begin; op < last; ++op) {
      if (!costs_time(graph, analysis, op)) continue;
      if (++counted % together == 0 && allowed[op + 1]) begins.push_back(op + 1);
    }
  }
  return begins;
}

std::vector<double> weights(const Graph& graph, const Analysis& analysis, OperatorId begin,
                            OperatorId end, int64_t batch) {
  // A CPU core does about ten FLOPs in the time that it takes to move a byte.
  constexpr double kFlopsPerByte = 10;
  std::vector<double> result;
  for (OperatorId op = begin; op < end; ++op) {
    if (!costs_time(graph, analysis, op)) {
      result.push_back(0);
      continue;
    }
    const Operator& o = graph.operators[op];
    result.push_back(std::max(forward_flops(graph, o, batch),
                              kFlopsPerByte * static_cast<double>(forward_bytes(graph, o, batch))));
  }
  return result;
}

}  // namespace penstock::profiler
