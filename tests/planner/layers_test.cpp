// Plans of layer tables: instances whose best plan is known, and what is odd about some tables.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.hpp"
#include "pipeline/layers/layer_model.hpp"
#include "planner/open/split_order.hpp"
#include "planner/plan.hpp"
#include "tests/planner/layer_tables.hpp"

namespace penstock {
namespace {

using test::asked;
using test::config;
using test::planned;

constexpr int64_t MB = 1'000'000;

/// A MILP proved 1132.6622 s to be the least for recompute of whole layers.
TEST(Layers, TheBestPlanOfLayersOfTwoSizesIsProven) {
  const Planned found = planned(config("moe_62.yaml"), asked("1f1b", 16, 1, 52'914 * MB));
  EXPECT_TRUE(found.complete);
  EXPECT_LE(found.simulation.makespan_s, 1132.6623);
  EXPECT_EQ(found.plan.ranks(), 16);
}

/// 93,777 ms is what hill climbing over choices of whole layers found.
TEST(Layers, TheBestPlanOfAGptWithOneStagePerRankIsProven) {
  const Planned found = planned(config("gpt_96.yaml"), asked("1f1b", 16, 1, 56'000 * MB));
  EXPECT_TRUE(found.complete);
  EXPECT_LE(found.simulation.makespan_s, 93.7771);
  EXPECT_LE(std::ranges::max(found.simulation.peak_memory_bytes), 56'000 * MB);
}

TEST(Layers, TheBestPlansOfAGptWithTwoStagesPerRankThatRecomputesAreProven) {
  for (const auto& [ranks, bytes] : {std::pair{4, 160'000 * MB}, {8, 95'000 * MB}}) {
    PlanRequest request = asked("interleaved-1f1b", ranks, 2, bytes);
    const Planned found = planned(config("gpt_96.yaml"), request);
    EXPECT_TRUE(found.complete) << ranks;
    request.threads = 3;
    const Planned on_threads = planned(config("gpt_96.yaml"), request);
    EXPECT_EQ(to_yaml(on_threads.plan, "plan.yaml"), to_yaml(found.plan, "plan.yaml"));
    EXPECT_TRUE(std::ranges::any_of(found.plan.stages, [](const StagePlan& stage) {
      return stage.recompute.any();
    })) << ranks;
  }
}

/// Two stages per rank of one or two layers each alone have 10^17 splits.
TEST(Layers, NoPlanOfAnyNumberOfStagesPerRankIsShorter) {
  PlanRequest request{.ranks = 16, .schedules = {"looped-bfs"}, .memory_bytes = 56'000 * MB};
  const Planned found = planned(config("moe_62.yaml"), request);
  EXPECT_LE(found.simulation.makespan_s, 1061.505);
  EXPECT_GE(found.proven_s(), (1 - near_enough) * found.simulation.makespan_s);
}

/// All F come before all B: the slowest of either count. With fewer ranks five layers do not fit.
TEST(Layers, TheBestPlanOfGpipeIsProven) {
  const Planned found = planned(config("moe_62.yaml"), asked("gpipe", 16, 1, 56'000 * MB));
  EXPECT_TRUE(found.complete);
  EXPECT_LE(found.simulation.makespan_s, 1202.3628);
}

/// Four layers on most ranks, which recompute all or all but one of them: 939 s at least, where the
/// work alone takes 735.
TEST(Layers, BoundsOfSeveralStagesPerRankKnowWhichWholeLayersFit) {
  PlanRequest request = asked("interleaved-1f1b", 16, 2, 56'000 * MB);
  request.effort = effort_per_second / 10;
  const Planned found = planned(config("moe_62.yaml"), request);
  EXPECT_GE(found.proven_s(), 939);
}

/// 86,566 ms is what another planner found in 90 s.
TEST(Layers, AnInterleavedGptIsShorterThanAnotherPlannersPlan) {
  PlanRequest request = asked("interleaved-1f1b", 16, 2, 56'000 * MB);
  request.effort = 2 * effort_per_second;
  const Planned found = planned(config("gpt_96.yaml"), request);
  EXPECT_LT(found.simulation.makespan_s, 86.566);
  EXPECT_LE(std::ranges::max(found.simulation.peak_memory_bytes), 56'000 * MB);
  EXPECT_GE(found.simulation.makespan_s, found.lower_bound_s);
}

/// 10^16 splits and more, of which no bound of first stages knows that the best are good.
TEST(Layers, ManyStagesPerRankAndBackwardsInPartsEndWithAProof) {
  struct Known {
    std::string schedule;
    int stages_per_rank;
    double step_s;  // at most
  };
  for (const Known& known : {Known{"looped-bfs", 2, 138.979},
                             {"looped-bfs", 3, 138.679},
                             {"zb-h1", 1, 142.040},
                             {"zbv", 2, 135.114},
                             {"interleaved-1f1b", 2, 139.540}}) {
    SCOPED_TRACE(known.schedule);
    PlanRequest request = asked(known.schedule, 16, known.stages_per_rank, 0);
    request.memory_bytes.reset();
    const Planned found = planned(config("gpt_zero_bubble.yaml"), request);
    EXPECT_LE(found.simulation.makespan_s, known.step_s);
    const bool near = found.open_bound_s >= (1 - near_enough) * found.simulation.makespan_s;
    EXPECT_TRUE(found.complete || near);
  }
}

/// All or nothing recomputed made a step of 321 s.
TEST(Layers, AdaptiveIsNoSlowerThanANamedScheduleThatRecomputes) {
  LayerTable table = config("gpt_96.yaml");
  for (Layer& layer : table.sizes.front().layers) {
    layer.has_parts = true;
    layer.backward_input_s = layer.backward_weight_s = layer.backward_s / 2;
  }
  PlanRequest request = asked("1f1b", 4, 1, 130'000 * MB);
  request.data_parallel = 1;
  request.split = {"block.23:end", "block.47:end", "block.71:end"};
  const Planned named = planned(table, request);
  request.schedules = {"adaptive"};
  const Planned found = planned(table, request);
  EXPECT_TRUE(found.plan.stages.front().recompute.any());
  EXPECT_LE(found.simulation.makespan_s, named.simulation.makespan_s);
  EXPECT_LE(std::ranges::max(found.simulation.peak_memory_bytes), 130'000 * MB);
  EXPECT_LT(found.proven_s(), found.simulation.makespan_s);  // it may recompute otherwise
}

TEST(Layers, ChoicesThatTakeTooMuchMeanwhileAreLeftOut) {
  LayerTable table{.path = config("gpt_96.yaml").path};
  Layer layer{.name = "a", .forward_s = 1, .backward_s = 2, .saved_bytes = 100};
  layer.recompute = {{"most", 1, 100, 100}, {"less", 2, 99, 0}};
  table.sizes.push_back({1, {layer}});
  const Planned found = planned(table, asked("1f1b", 1, 1, 50));
  EXPECT_TRUE(found.plan.stages[0].recompute.layers.contains("less"));
  EXPECT_EQ(found.simulation.makespan_s, 5);
}

TEST(Layers, OfWhichEachIsAnotherArePlannedWithinTheEffort) {
  std::mt19937_64 random(4);
  LayerTable table{.path = config("gpt_96.yaml").path, .global_batch = 32};
  LayerCosts& costs = table.sizes.emplace_back();
  for (int number = 0; number < 150; ++number) {
    const auto drawn = [&](int64_t least) { return least + static_cast<int64_t>(random() % 999); };
    Layer layer{.name = "l" + std::to_string(number), .forward_s = 1e-3 * double(drawn(1000))};
    layer.backward_s = 2 * layer.forward_s;
    layer.static_bytes = drawn(1000);
    layer.saved_bytes = drawn(2000);
    layer.recompute = {{"some", 1e-3 * double(drawn(100)), drawn(500), 0},
                       {"all", 1e-3 * double(drawn(1100)), layer.saved_bytes, 0}};
    costs.layers.push_back(layer);
  }
  const Planned found = planned(table, asked("1f1b", 8, 1, 90'000));
  EXPECT_TRUE(found.complete);
  EXPECT_TRUE(found.plan.stages[0].recompute.any());
}

TEST(Layers, BackwardsAsAWholeAreNotDivided) {
  LayerTable table = config("gpt_96.yaml");
  const Planned found = planned(table, {.ranks = 2, .data_parallel = 1, .effort = 1000});
  EXPECT_EQ(found.warnings.size(), 1);
  EXPECT_THROW(planned(table, {.ranks = 2, .schedules = {"zb-h1"}}), InputError);
}

TEST(Layers, WithoutGradientsThereAreNoReplicas) {
  LayerTable table = config("gpt_96.yaml");
  EXPECT_THROW(planned(table, {.ranks = 2, .data_parallel = 2}), InputError);
  for (Layer& layer : table.sizes[0].layers) layer.gradient_bytes = layer.static_bytes / 9;
  EXPECT_EQ(planned(table, {.ranks = 2, .data_parallel = 2}).plan.data_parallel, 2);
}

}  // namespace
}  // namespace penstock
