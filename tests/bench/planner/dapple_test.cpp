// DAPPLE's objective by hand, and its search against trying every plan.
#include "bench/planner/dapple/dapple.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/bench/planner/instances.hpp"

namespace penstock::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Ways = std::vector<std::vector<int>>;

TEST(Dapple, PlacesFromFreeMachinesFromUsedOnesAndInTurn) {
  EXPECT_THAT(dapple_placements({4, 4}, {0, 0}, 3, 1), ElementsAre(std::vector{2, 1},    // in turn
                                                                   std::vector{3, 0}));  // free
  EXPECT_THAT(dapple_placements({4, 4}, {1, 0}, 3, 1),
              ElementsAre(std::vector{0, 3}, std::vector{2, 1}, std::vector{3, 0}));
  EXPECT_THAT(dapple_placements({4, 4}, {1, 0}, 4, 1),  // too few are left beside the used one
              ElementsAre(std::vector{0, 4}, std::vector{2, 2}));
  EXPECT_THAT(dapple_placements({4, 4}, {0, 0}, 6, 1),
              ElementsAre(std::vector{3, 3}, std::vector{4, 2}));
  EXPECT_THAT(dapple_placements({2, 2}, {2, 1}, 2, 1), IsEmpty());
}

TEST(Dapple, PlacesReplicasInRounds) {
  // The first round leaves machine 0 in use, so the second can go on there or begin on 1.
  EXPECT_THAT(dapple_placements({4, 4}, {0, 0}, 1, 2),
              ElementsAre(std::vector{1, 1}, std::vector{2, 0}));
  EXPECT_THAT(dapple_placements({1, 1}, {0, 0}, 1, 3), IsEmpty());
}

/// Two layers of 1 s for the profile's one sample, 2e9 activation bytes between, 3e9 parameter
/// bytes each.
LayerGraph two_layers() {
  return {{{"a", "", 0.4, 0.6, 2e9, 3e9}, {"b", "", 0.4, 0.6, 0, 3e9}}, {2, {{0, 1}}}};
}

TEST(Dapple, AddsUpAPipelineAsThePaperDoes) {
  const DappleSetting setting{.machines = {2, 2}, .batch = 4, .reduces_next_layer = false};
  const DappleModel model = dapple_model(two_layers(), setting);
  // Two stages of one device, on one machine: B = 4 s of compute (transfer 8e9/25e9 s), M = 4.
  // 3/4 x 4 + 8/4 + 2e9/25e9 = 5.08 s; nothing to reduce.
  EXPECT_DOUBLE_EQ(dapple_speedup(model, setting, {1, {{0, 1, {1, 0}}, {1, 2, {1, 0}}}}), 8 / 5.08);
  // Across machines the transfer is longer than the compute: 8e9 / 1e9 s.
  EXPECT_DOUBLE_EQ(dapple_speedup(model, setting, {1, {{0, 1, {1, 0}}, {1, 2, {0, 1}}}}),
                   8 / (3.0 / 4 * 8 + 2 + 2));
  // Two replicas of that, on machines of their own: B = max(4/2, 2 x 8), M = 2; the first stage's
  // all-reduce of 2 x 1/2 x 3e9 bytes at 25 GB/s counts, the second's, earlier by 8 s, does not.
  EXPECT_DOUBLE_EQ(dapple_speedup(model, setting, {2, {{0, 1, {2, 0}}, {1, 2, {0, 2}}}}),
                   8 / (1.0 / 2 * 16 + 8.0 / 2 / 2 + 2 + 0.12));
  // One stage on all: 2 x 3/4 x 6e9 bytes at 3 GB/s.
  EXPECT_DOUBLE_EQ(dapple_speedup(model, setting, {1, {{0, 2, {2, 2}}}}),
                   8 / (3.0 / 4 * 2 + 2 + 3));
}

TEST(Dapple, CanCountTheNextLayersParametersAsThePublishedCodeDoes) {
  const DappleSetting setting{.machines = {2, 2}, .batch = 4};
  const DappleModel model = dapple_model(two_layers(), setting);
  EXPECT_DOUBLE_EQ(dapple_speedup(model, setting, {2, {{0, 1, {2, 0}}, {1, 2, {0, 2}}}}),
                   8 / (1.0 / 2 * 16 + 8.0 / 2 / 2 + 2 + 0.24));
}

TEST(Dapple, APlanWithoutAWholeMicrobatchIsWorthNothing) {
  const DappleSetting setting{.machines = {2, 2}, .profile_batch = 4, .batch = 4};
  const DappleModel model = dapple_model(two_layers(), setting);
  EXPECT_EQ(dapple_speedup(model, setting, {2, {{0, 2, {2, 2}}}}), 0);
}

DappleModel random_model(test::Dice& dice, const DappleSetting& setting) {
  LayerGraph graph;
  graph.dag = test::random_dag(dice, dice.number(1, 4), 40);
  for (int i = 0; i < graph.dag.nodes; ++i)
    graph.layers.push_back({.name = std::to_string(i),
                            .forward_s = 0.25 * dice.number(0, 9),
                            .backward_s = 0.5 * dice.number(1, 9),
                            .activation_bytes = 1e9 * dice.number(0, 9),
                            .parameter_bytes = 1e9 * dice.number(0, 20)});
  return dapple_model(graph, setting);
}

/// Goes on with the plan in every way; the best speedup of all.
double best_speedup(const DappleModel& model, const DappleSetting& setting, const DapplePlan& plan,
                    int devices) {
  const int begin = plan.stages.empty() ? 0 : plan.stages.back().end;
  if (begin == model.layers()) return devices == 0 ? dapple_speedup(model, setting, plan) : 0;
  std::vector<int> used(setting.machines.size());
  for (const DappleStage& stage : plan.stages)
    for (size_t i = 0; i < used.size(); ++i) used[i] += stage.devices[i];
  double best = 0;
  for (int end = begin + 1; end <= model.layers(); ++end)
    for (int count = 1; count <= devices; ++count)
      for (const auto& way : dapple_placements(setting.machines, used, count, plan.replicas)) {
        DapplePlan longer = plan;
        longer.stages.push_back({begin, end, way});
        best = std::max(best, best_speedup(model, setting, longer, devices - count));
      }
  return best;
}

TEST(Dapple, FindsTheBestOfAllPlans) {
  const Ways clusters = {{1}, {2}, {1, 1}, {2, 2}, {3, 1}, {2, 1, 2}, {4}};
  for (uint64_t seed = 0; seed < 700; ++seed) {
    SCOPED_TRACE(seed);
    test::Dice dice(seed);
    const DappleSetting setting{.machines = clusters[seed % clusters.size()],
                                .profile_batch = dice.number(1, 3),
                                .batch = dice.number(1, 40),
                                .reduces_next_layer = seed % 2 == 0};
    const DappleModel model = random_model(dice, setting);
    int all = 0;
    for (const int devices : setting.machines) all += devices;
    double expected = 0;
    for (int devices = std::min(all, 2); devices <= all; ++devices)
      expected =
          std::max(expected, best_speedup(model, setting, {.replicas = all / devices}, devices));
    const DappleResult found = solve_dapple(model, setting);
    EXPECT_TRUE(found.exact);
    ASSERT_NEAR(found.speedup, expected, test::rounding * expected);
    if (found.speedup > 0) {
      EXPECT_EQ(found.speedup, dapple_speedup(model, setting, found.plan));
    }
  }
}

TEST(Dapple, SaysWhereItGaveUp) {
  test::Dice dice(1);
  const DappleSetting setting{.machines = {4, 4}, .batch = 64};
  const DappleModel model = random_model(dice, setting);
  EXPECT_FALSE(solve_dapple(model, setting, 3).exact);
}

}  // namespace
}  // namespace penstock::bench
