// Narrower cuts: minimum cuts against trying all, and what a plan gains.
#include "planner/model/refine_cuts.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <utility>

#include "planner/model/min_cut.hpp"
#include "planner/plan.hpp"
#include "tests/graph/build_graph.hpp"
#include "tests/pipeline/support.hpp"
#include "tests/planner/synthetic_profile.hpp"

namespace penstock::test {
namespace {

using testing::batch;
using testing::GraphBuilder;

int64_t crossing(const std::vector<CapacityEdge>& edges, uint32_t side) {
  int64_t sum = 0;
  for (const CapacityEdge& edge : edges) {
    if (side >> edge.from & 1 && !(side >> edge.to & 1)) sum += edge.capacity;
  }
  return sum;
}

TEST(MinCut, IsTheLeastOfAllCutsWithTheFewestNodes) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const int nodes = 3 + static_cast<int>(random() % 6);
    std::vector<CapacityEdge> edges;
    for (int from = 0; from < nodes; ++from) {
      for (int to = 0; to < nodes; ++to) {
        if (from == to || random() % 3 > 0) continue;
        edges.push_back({from, to, static_cast<int64_t>(random() % 9)});
      }
    }
    std::pair<int64_t, int> best{INT64_MAX, 0};
    for (uint32_t side = 1; side < 1U << nodes; side += 2) {  // with node 0
      if (side >> 1 & 1) continue;                            // without node 1
      best = std::min(best, {crossing(edges, side), std::popcount(side)});
    }
    const std::vector<char> found = min_cut(nodes, edges, 0, 1);
    uint32_t side = 0;
    for (int node = 0; node < nodes; ++node) side |= static_cast<uint32_t>(found[node]) << node;
    EXPECT_EQ(std::pair(crossing(edges, side), std::popcount(side)), best) << seed;
  }
}

/// More flows into one node than INT64_MAX counts.
TEST(MinCut, TakesAnyNumberOfInfiniteEdges) {
  constexpr int64_t infinite = CapacityEdge::infinite;
  constexpr int joint = 2, aside = 3;
  std::vector<CapacityEdge> edges{
      {0, joint, 1}, {0, aside, 400}, {aside, joint, infinite}, {1, 0, infinite}, {joint, 1, 5}};
  std::vector<char> expected{1, 0, 1, 1};
  for (int node = aside + 1; node <= aside + 4; ++node) {
    edges.push_back({0, node, infinite});
    edges.push_back({node, joint, infinite});
    expected.push_back(1);
  }
  EXPECT_EQ(min_cut(static_cast<int>(expected.size()), edges, 0, 1), expected);
}

constexpr int64_t features = 256;

/// A wide mask from a narrow input at the top, six layers, and the mask's use at the end.
Graph masked() {
  GraphBuilder graph;
  const ValueId x = graph.input("x", {batch, features}), small = graph.input("small", {batch, 1});
  const ValueId mask = graph.op("aten::expand_copy", {small}, {batch, 4 * features}, {"mask"});
  ValueId value = x;
  for (int i = 0; i < 6; ++i) {
    const std::string name = fmt::format("m{}", i);
    for (const int64_t out : {2 * features, features}) {
      const int64_t in = 3 * features - out;
      const ValueId weight = graph.parameter(fmt::format("{}.{}", name, out), {out, in});
      value = graph.op("aten::linear", {value, weight}, {batch, out}, {name});
      graph.named({"input", "weight"});
    }
  }
  graph.output(graph.op("aten::add.Tensor", {value, mask}, {batch, features}, {"end"}));
  graph.graph.path = "/models/masked.pt2";
  graph.graph.sha256 = std::string(64, '0');
  graph.graph.batch_coupled = false;
  return graph.graph;
}

Planned planned(const Graph& model, bool contiguous) {
  const TemporaryFolder folder;
  const Profile profile = written(synthetic_profile(model, {8}, 32, {.link_bytes_per_s = 1e8}),
                                  folder.path() / "p.json");
  return make_plan(
      profile, model, nullptr,
      {.ranks = 2, .schedules = {"1f1b"}, .data_parallel = 1, .contiguous = contiguous});
}

TEST(RefinedCuts, AMaskIsMadeWhereItIsUsed) {
  const Graph model = masked();
  const Planned wide = planned(model, true), narrow = planned(model, false);
  ASSERT_EQ(narrow.plan.ranks(), 2);
  EXPECT_TRUE(narrow.refined);
  EXPECT_FALSE(wide.refined);
  EXPECT_EQ(narrow.slicing.stage_of_operator.front(), 1);
  EXPECT_LT(narrow.plan.prediction->step_s, wide.plan.prediction->step_s);
  EXPECT_LE(narrow.lower_bound_s, narrow.plan.prediction->step_s);
  ASSERT_EQ(narrow.slicing.edges.size(), 1U);
  EXPECT_EQ(narrow.slicing.edges[0].values.size(), 1U) << "without the mask";
}

TEST(RefinedCuts, NothingMovesThatSavesNoByte) {
  const Graph model = masked();
  const Planned narrow = planned(model, false);
  const Analysis analysis = analyse(model);
  const Profile profile = synthetic_profile(model, {8}, 32);
  EXPECT_EQ(refined_stages(model, analysis, narrow.slicing, profile.microbatches.front()),
            narrow.slicing.stage_of_operator);
}

TEST(RefinedCuts, HeavyOperatorsStay) {
  const Graph model = masked();
  Profile profile = synthetic_profile(model, {8}, 32);
  profile.microbatches.front().operators.front().times.forward.mean_s = 1e-3;  // the mask
  const Planned wide = planned(model, true);
  const Analysis analysis = analyse(model);
  EXPECT_EQ(refined_stages(model, analysis, wide.slicing, profile.microbatches.front()),
            wide.slicing.stage_of_operator);
}

}  // namespace
}  // namespace penstock::test
