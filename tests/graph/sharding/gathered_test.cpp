// Values that the backward gathers again, where that is asked for.
#include <gmock/gmock.h>

#include "graph/sharding/collectives.hpp"
#include "graph/sharding/local_graph.hpp"
#include "graph/sharding/saved.hpp"
#include "tests/graph/build_graph.hpp"

namespace penstock::sharding {
namespace {

/// A linear layer whose result is to be split along its rows, and two of its columns behind it.
Graph layers() {
  penstock::testing::GraphBuilder b;
  const auto x = b.input("x", {8, 64});
  const auto first = b.op("aten::linear", {x, b.parameter("first", {64, 64})}, {8, 64});
  const auto wide = b.op("aten::linear", {first, b.parameter("wide", {256, 64})}, {8, 256});
  const auto other = b.op("aten::linear", {first, b.parameter("other", {256, 64})}, {8, 256});
  const auto product = b.op("aten::mul", {wide, other}, {8, 256});
  b.output(b.op("aten::linear", {product, b.parameter("narrow", {64, 256})}, {8, 64}));
  for (StoredTensor& weight : b.graph.tensors) weight.strides = {weight.sizes[1], 1};
  return b.graph;
}

Completion completed(const Graph& graph, bool again) {
  const Pins pins{.parameters = {{"wide", Layout::split(0)},
                                 {"other", Layout::split(0)},
                                 {"narrow", Layout::split(1)}},
                  .values = {{"linear", Layout::split(0)}},
                  .gathers_again = again};
  return complete(graph, pins, 8, 2);
}

TEST(Gathered, KeptUnlessItIsAskedFor) {
  const Graph graph = layers(), local = local_graph(graph, completed(graph, false)).graph;
  EXPECT_EQ(std::ranges::count_if(local.operators, gathers_again), 0);
  EXPECT_EQ(std::ranges::count(local.operators, "penstock::all_gather", &Operator::target), 1);
}

/// The value has 8 x 64 numbers of 4 bytes: so many are saved less, and half of them sent again.
TEST(Gathered, AgainItSavesThePartAloneAndSendsItTwice) {
  const Graph graph = layers();
  const Completion kept = completed(graph, false), again = completed(graph, true);
  EXPECT_EQ(kept.saved_bytes - again.saved_bytes, 8 * 64 * 4);
  EXPECT_EQ(again.cost - kept.cost, Costs().sent_byte * 8 * 64 * 4 / 2);
  EXPECT_FALSE(same_layouts(kept, again));
}

TEST(Gathered, AgainForWOfTheProductsThatReadIt) {
  const Graph graph = layers(), local = local_graph(graph, completed(graph, true)).graph;
  const auto gather = std::ranges::find_if(local.operators, gathers_again);
  ASSERT_NE(gather, local.operators.end());
  EXPECT_EQ(conversion_of(*gather)->forward, Step::all_gather);
  const auto found = gathered_in(local, analyse(local));
  for (size_t op = 0; op < found.size(); ++op) {
    EXPECT_FALSE(found[op].input);
    EXPECT_EQ(found[op].weight,
              local.operators.begin() + static_cast<std::ptrdiff_t>(op) == gather);
  }
}

}  // namespace
}  // namespace penstock::sharding
