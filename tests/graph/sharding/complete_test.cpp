// A completion that is said to be exact costs as little as any: small random graphs, against every
// choice of signatures and conversions.
#include "graph/sharding/complete.hpp"

#include <gtest/gtest.h>

#include <random>

#include "base/error.hpp"
#include "tests/graph/build_graph.hpp"
#include "tests/graph/sharding/exhaustive.hpp"
#include "tests/graph/sharding/random_graph.hpp"

namespace penstock::sharding {
namespace {

struct Tried {
  int exact = 0, refused = 0;
};

std::optional<Completion> completed(const testing::RandomGraph& given, int parts) {
  try {
    return complete(given.graph, given.pins, given.batch, parts, given.microbatches, given.costs);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

void compare(const testing::RandomGraph& given, int parts, Tried& tried) {
  const auto expected = testing::cheapest_cost(given.graph, given.pins, given.batch, parts,
                                               given.microbatches, given.costs);
  const auto found = completed(given, parts);
  ASSERT_EQ(found.has_value(), expected.has_value()) << given.text();
  if (!found) {
    ++tried.refused;
    return;
  }
  tried.exact += found->exact;
  EXPECT_GE(found->weighed, *expected) << given.text();
  if (found->exact) {
    EXPECT_EQ(found->weighed, *expected) << given.text();
  }
}

TEST(Complete, FindsTheCheapest) {
  std::mt19937 random(1);
  for (const int parts : {2, 3}) {
    Tried tried;
    for (int round = 0; round < 100; ++round)
      compare(testing::random_graph(random, parts), parts, tried);
    EXPECT_GT(tried.exact, 80);
    EXPECT_GT(tried.refused, 0);
  }
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
  EXPECT_EQ(found.cost, testing::cheapest_cost(b.graph, pins, 1, 2, 1));
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
