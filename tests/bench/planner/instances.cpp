#include "tests/bench/planner/instances.hpp"

#include <algorithm>

namespace penstock::test {

Dag random_dag(Dice& dice, int nodes, int edge_percent) {
  Dag dag{nodes, {}};
  for (int from = 0; from < nodes; ++from)
    for (int to = from + 1; to < nodes; ++to)
      if (dice.percent(edge_percent)) dag.edges.emplace_back(from, to);
  return dag;
}

void for_all(int length, int values, const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> list(length, 0);
  if (values == 0) return;
  for (;;) {
    visit(list);
    int at = 0;
    while (at < length && ++list[at] == values) list[at++] = 0;
    if (at == length) return;
  }
}

void for_all_stages(const Dag& dag,
                    const std::function<void(const std::vector<int>&, int)>& visit) {
  for (int stages = 1; stages <= dag.nodes; ++stages) {
    for_all(dag.nodes, stages, [&](const std::vector<int>& stage) {
      std::vector<bool> filled(stages);
      for (const int number : stage) filled[number] = true;
      const bool forward = std::ranges::all_of(
          dag.edges, [&](const auto& edge) { return stage[edge.first] <= stage[edge.second]; });
      if (forward && std::ranges::count(filled, false) == 0) visit(stage, stages);
    });
  }
}

}  // namespace penstock::test
