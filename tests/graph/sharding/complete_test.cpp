// A completion that is said to be exact costs as little as any: small random graphs, against every
// choice of signatures and conversions.
#include "graph/sharding/complete.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.hpp"
#include "tests/graph/build_graph.hpp"
#include "tests/graph/sharding/exhaustive.hpp"
#include "tests/graph/sharding/random_graph.hpp"

namespace penstock::sharding {
namespace {

struct Tried {
  int exact = 0, refused = 0, split_losses = 0;
};

std::optional<Completion> completed(const testing::RandomGraph& given, int parts,
                                    FirstOutput first) {
  try {
    return complete(given.graph, given.pins, given.batch, parts, given.microbatches, first);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

void compare(const testing::RandomGraph& given, int parts, FirstOutput first, Tried& tried) {
  const auto expected = testing::cheapest_cost(given.graph, given.pins, given.batch, parts,
                                               given.microbatches, first);
  const auto found = completed(given, parts, first);
  ASSERT_EQ(found.has_value(), expected.has_value()) << given.text();
  if (!found) {
    ++tried.refused;
    return;
  }
  tried.exact += found->exact;
  tried.split_losses += found->outputs.front().is_split();
  EXPECT_GE(found->weighed, *expected) << given.text();
  if (found->exact) {
    EXPECT_EQ(found->weighed, *expected) << given.text();
  }
}

TEST(Complete, FindsTheCheapest) {
  std::mt19937 random(1);
  for (const int parts : {2, 3}) {
    Tried tried;
    for (int round = 0; round < 100; ++round) {
      const testing::RandomGraph graph = testing::random_graph(random, parts);
      compare(graph, parts, FirstOutput::any, tried);
      compare(graph, parts, FirstOutput::logits, tried);
    }
    EXPECT_GT(tried.exact, 160);
    EXPECT_GT(tried.refused, 0);
    EXPECT_GT(tried.split_losses, 20);
  }
}

/// Norm, columns, rows and a residual, so many times.
Graph blocks(int count) {
  penstock::testing::GraphBuilder b;
  ValueId x = b.input("x", {4, 64, 32});
  for (int i = 0; i < count; ++i) {
    const auto of = [&](const char* name) { return fmt::format("blocks.{}.{}", i, name); };
    const auto norm = b.op("aten::layer_norm", {x, b.parameter(of("norm"), {32})}, {4, 64, 32});
    b.named({"input", "weight"}, {{"normalized_shape", std::vector<Expression>{32}}});
    const auto wide =
        b.op("aten::linear", {norm, b.parameter(of("columns"), {128, 32})}, {4, 64, 128});
    b.named({"input", "weight"});
    const auto active = b.op("aten::gelu", {wide}, {4, 64, 128});
    b.named({"self"});
    const auto narrow =
        b.op("aten::linear", {active, b.parameter(of("rows"), {32, 128})}, {4, 64, 32});
    b.named({"input", "weight"});
    x = b.op("aten::add", {x, narrow}, {4, 64, 32}, {fmt::format("blocks.{}", i)});
    b.named({"self", "other"});
  }
  b.output(x);
  return b.graph;
}

Pins priced(int64_t state, int64_t saved) {
  return {{}, {}, {.state_byte = state, .saved_byte = saved}};
}

const Pins with_prices = priced(3000, 300);

TEST(Complete, SearchesBlocksThatAreAlikeOnce) {
  const Completion few = complete(blocks(8), with_prices, 1, 2);
  const Completion many = complete(blocks(96), with_prices, 1, 2);
  EXPECT_TRUE(many.exact);
  EXPECT_EQ(many.states, few.states);
  const Completion more = complete(blocks(97), with_prices, 1, 2);
  EXPECT_EQ(more.weighed - many.weighed,
            many.weighed - complete(blocks(95), with_prices, 1, 2).weighed);
}

/// Blocks whose weights are pinned are not like others, so that they are searched one by one.
TEST(Complete, FindsTheSameWhetherBlocksAreSearchedOnceOrOneByOne) {
  for (const int64_t price : {0, 300, 3000, 30'000}) {
    Pins pins = priced(price, price / 10);
    const Graph graph = blocks(12);
    const Completion once = complete(graph, pins, 1, 2);
    for (int i = 0; i < 12; i += 2) {
      const int tensor = graph.tensor_by_name().at(fmt::format("blocks.{}.rows", i));
      pins.parameters.push_back({graph.tensors[tensor].name, once.tensors[tensor]});
    }
    const Completion one_by_one = complete(graph, pins, 1, 2);
    EXPECT_TRUE(once.exact && one_by_one.exact);
    EXPECT_GT(one_by_one.states, once.states);
    EXPECT_EQ(one_by_one.weighed, once.weighed);
  }
}

TEST(Complete, ThePriceOfMemorySplitsWhatTimeAloneReplicates) {
  const Graph graph = blocks(2);
  const Completion fast = complete(graph, {}, 1, 2, 8);
  const Completion small = complete(graph, priced(max_price(graph, 1), 0), 1, 2, 8);
  EXPECT_LT(fast.cost, small.cost);
  int64_t bytes = 0;
  for (const StoredTensor& tensor : graph.tensors) bytes += 4 * tensor.bytes();
  EXPECT_EQ(fast.state_bytes, bytes);
  EXPECT_LT(small.state_bytes, bytes * 51 / 100);  // only the norms are whole
  EXPECT_EQ(small.weighed, small.cost + max_price(graph, 1) * small.state_bytes);
}

TEST(Complete, RefusesPricesOfWhichCostsWouldOverflow) {
  const Graph graph = blocks(1);
  EXPECT_THROW(complete(graph, priced(0, max_price(graph, 1) + 1), 1, 2), InputError);
  EXPECT_THROW(complete(graph, priced(-1, 0), 1, 2), InputError);
}

TEST(Complete, ReplicatesAWeightBeforeItIsReadSoWhereThatSpendsLess) {
  penstock::testing::GraphBuilder b;
  const auto x = b.input("x", {4, 998, 998});
  const auto w = b.parameter("w", {998});
  const auto sum = b.op("aten::add", {x, w}, {4, 998, 998}, {"first"});
  b.named({"self", "other"});
  b.output(b.op("aten::layer_norm", {sum, w}, {4, 998, 998}, {"second"}));
  b.named({"input", "weight"}, {{"normalized_shape", std::vector<Expression>{998}}});
  const Pins pins{{{"w", Layout::identical()}},
                  {{"first", Layout::split(2)}, {"second", Layout::split(0)}}};
  const Completion found = complete(b.graph, pins, 1, 2);
  EXPECT_EQ(found.cost, testing::cheapest_cost(b.graph, pins, 1, 2, 1, FirstOutput::any));
  std::vector<std::pair<Layout, Layout>> of_weight;  // of which the second costs nothing
  for (const Converted& each : found.conversions)
    if (each.value == w) of_weight.emplace_back(each.from, each.to);
  EXPECT_EQ(of_weight,
            (std::vector<std::pair<Layout, Layout>>{{Layout::identical(), Layout::replicated()},
                                                    {Layout::replicated(), Layout::split(0)}}));
}

TEST(Complete, RefusesASplitWeightThatTheModelReturns) {
  penstock::testing::GraphBuilder b;
  b.output(b.parameter("w", {4}));
  b.graph.path = "model.pt2";
  try {
    complete(b.graph, {{{"w", Layout::split(0)}}, {}}, 1, 2);
    FAIL() << "it is not refused";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "model.pt2: outputs cannot be computed in 2 parts with w [4] in S(0)\n"
                 "  Split along another dimension, or hold the parameter whole.");
  }
}

}  // namespace
}  // namespace penstock::sharding
