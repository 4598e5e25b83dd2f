// Operators that draw random numbers, whole or for a part.
#include <gmock/gmock.h>

#include "graph/sharding/local_graph.hpp"
#include "tests/graph/build_graph.hpp"

namespace penstock::sharding {
namespace {

/// A dropout between the columns and the rows of two linear layers.
Graph mlp() {
  penstock::testing::GraphBuilder b;
  const auto x = b.input("x", {4, 64});
  const auto wide = b.parameter("wide", {256, 64}), narrow = b.parameter("narrow", {64, 256});
  const auto columns = b.op("aten::linear", {x, wide}, {4, 256});
  const auto dropped = b.op("aten::dropout", {columns}, {4, 256});
  b.named({"input"}, {{"p", 0.5}, {"train", true}});
  b.output(b.op("aten::linear", {dropped, narrow}, {4, 64}));
  for (StoredTensor& weight : b.graph.tensors) weight.strides = {weight.sizes[1], 1};
  return b.graph;
}

const Operator& dropout_of(const Graph& graph) {
  return *std::ranges::find(graph.operators, "aten::dropout", &Operator::target);
}

Graph local(bool by_part) {
  const Graph whole = mlp();
  const Pins pins{.parameters = {{"wide", Layout::split(0)}, {"narrow", Layout::split(1)}},
                  .random_by_part = by_part};
  return local_graph(whole, complete(whole, pins, 4, 2)).graph;
}

std::vector<std::string> targets(const Graph& graph) {
  std::vector<std::string> found;
  for (const Operator& op : graph.operators) found.push_back(op.target);
  return found;
}

TEST(RandomOperators, DrawForAPartWhereTheyMay) {
  const Graph graph = local(true);
  EXPECT_TRUE(dropout_of(graph).by_part);
  EXPECT_THAT(targets(graph), ::testing::ElementsAre("aten::linear", "aten::dropout",
                                                     "aten::linear", "penstock::all_reduce"));
}

TEST(RandomOperators, ElseDrawForTheWhole) {
  const Graph graph = local(false);
  EXPECT_FALSE(dropout_of(graph).by_part);
  EXPECT_THAT(targets(graph), ::testing::Contains("penstock::all_gather"));
}

TEST(RandomOperators, ThatDrawForAPartDoSoAtOtherSizesToo) {
  const Graph whole = mlp();
  Pins pins{.parameters = {{"wide", Layout::split(0)}, {"narrow", Layout::split(1)}},
            .random_by_part = true};
  const Completion completion = complete(whole, pins, 4, 2);
  EXPECT_TRUE(holds_at(whole, pins, completion, 4));
  pins.random_by_part = false;
  EXPECT_FALSE(holds_at(whole, pins, completion, 4));
}

TEST(RandomOperators, OnAWholeTensorEachPartDrawsTheSame) {
  const Graph whole = mlp();
  for (const Signature& each : signatures(whole, dropout_of(whole), 4, 2, true)) {
    if (each.operands[0] == Layout::identical()) continue;
    EXPECT_TRUE(each.operands[0].is_split() && each.results == each.operands)
        << each.operands[0].str();
  }
}

}  // namespace
}  // namespace penstock::sharding
