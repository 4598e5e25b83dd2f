// list-signatures MODEL.pt2 PARTS: a line of JSON for each operator, with its name, the values that
// its tensor arguments and its results are, and the signatures that it has.
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "graph/pt2/pt2.hpp"
#include "graph/sharding/signatures.hpp"

using namespace penstock;  // NOLINT

namespace {

nlohmann::json texts(const std::vector<sharding::Layout>& layouts) {
  auto list = nlohmann::json::array();
  for (const auto& layout : layouts) list.push_back(layout.str());
  return list;
}

nlohmann::json names(const Graph& graph, const std::vector<ValueId>& values) {
  auto list = nlohmann::json::array();
  for (const ValueId value : values) list.push_back(graph.values[value].name);
  return list;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const Graph graph = read_pt2(argv[1]);
  for (const Operator& op : graph.operators) {
    auto all = nlohmann::json::array();
    for (const auto& each :
         sharding::signatures(graph, op, graph.example_batch, std::atoi(argv[2])))
      all.push_back({{"operands", texts(each.operands)}, {"results", texts(each.results)}});
    std::cout << nlohmann::json{{"name", op.name},
                                {"target", op.target},
                                {"operands", names(graph, sharding::tensor_arguments(op))},
                                {"results", names(graph, op.outputs)},
                                {"signatures", all}}
              << "\n";
  }
}
