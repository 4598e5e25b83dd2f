// Plans of small layer tables, against trying every split with every choice.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "base/error.hpp"
#include "pipeline/layers/layer_model.hpp"
#include "planner/plan.hpp"
#include "tests/planner/chains.hpp"
#include "tests/planner/layer_tables.hpp"

namespace penstock {
namespace {

using test::asked;
using test::best_of;
using test::config;
using test::plan_of;
using test::planned;
using test::random_table;

/// Relative: as exact as a proof of what ranks recompute is.
constexpr double exact_within = 1e-8;

/// The least over all splits of so many stages.
std::optional<double> best_of_splits(const Profile& profile, const Graph& model,
                                     const std::string& schedule, int ranks, int stages,
                                     int64_t memory_bytes) {
  std::optional<double> best_s;
  for (const std::vector<int>& begins :
       test::all_splits(static_cast<int>(model.operators.size()), stages)) {
    const auto found_s =
        best_of(profile, model, plan_of(profile, model, schedule, ranks, begins), memory_bytes);
    if (found_s) best_s = std::min(best_s.value_or(*found_s), *found_s);
  }
  return best_s;
}

/// The least over all splits on up to so many ranks, one stage on each.
std::optional<double> best_of_all(const Profile& profile, const Graph& model,
                                  const std::string& schedule, int most_ranks,
                                  int64_t memory_bytes) {
  const int layers = static_cast<int>(model.operators.size());
  std::optional<double> best_s;
  for (int ranks = 1; ranks <= std::min(most_ranks, layers); ++ranks) {
    const auto found_s = best_of_splits(profile, model, schedule, ranks, ranks, memory_bytes);
    if (found_s) best_s = std::min(best_s.value_or(*found_s), *found_s);
  }
  return best_s;
}

TEST(LayersByTrying, WithOneStagePerRankPlansEqualTryingEverySplitAndEveryChoice) {
  std::mt19937_64 random(1);
  int fitting = 0, recomputing = 0;
  for (int i = 0; i < 150; ++i) {
    SCOPED_TRACE(i);
    const LayerTable table = random_table(random, false);
    const Profile profile = layer_profile(table);
    const Graph model = layer_graph(table);
    const int64_t memory_bytes = 60 + static_cast<int64_t>(random() % 200);
    const std::string schedule = random() % 3 == 0 ? "gpipe" : "1f1b";
    const auto best_s = best_of_all(profile, model, schedule, 3, memory_bytes);
    PlanRequest request = asked(schedule, 3, 1, memory_bytes);
    if (!best_s) {
      EXPECT_THROW(planned(table, request), InputError);
      continue;
    }
    const Planned found = planned(table, request);
    EXPECT_TRUE(found.complete);
    EXPECT_DOUBLE_EQ(found.simulation.makespan_s, *best_s);
    EXPECT_LE(found.lower_bound_s, *best_s * (1 + test::rounding));
    ++fitting;
    recomputing += std::ranges::any_of(
        found.plan.stages, [](const StagePlan& stage) { return stage.recompute.any(); });
  }
  EXPECT_GT(fitting, 75);
  EXPECT_GT(recomputing, 20);
}

/// Also of recompute in one stage of a rank or another. Ranks with rough layers may not fit by what
/// their stages keep: then more is left open.
TEST(LayersByTrying, WithSeveralStagesPerRankAProofIsOfAllSplitsAndChoices) {
  for (const bool rough : {false, true}) {
    std::mt19937_64 random(2);
    int compared = 0, proven = 0;
    for (int i = 0; i < 120; ++i) {
      SCOPED_TRACE(i);
      LayerTable table = random_table(random, rough);
      table.global_batch = 4;
      const Profile profile = layer_profile(table);
      const Graph model = layer_graph(table);
      if (model.operators.size() < 4) continue;
      const int64_t memory_bytes = 100 + static_cast<int64_t>(random() % 200);
      const auto best_s = best_of_splits(profile, model, "interleaved-1f1b", 2, 4, memory_bytes);
      if (!best_s) continue;
      const Planned found = planned(table, asked("interleaved-1f1b", 2, 2, memory_bytes));
      EXPECT_LE(found.lower_bound_s, *best_s * (1 + test::rounding));
      EXPECT_LE(found.proven_s(), *best_s * (1 + exact_within));
      EXPECT_GE(found.simulation.makespan_s, *best_s * (1 - test::rounding));
      EXPECT_LE(std::ranges::max(found.simulation.peak_memory_bytes), memory_bytes);
      ++compared;
      proven += found.complete;
    }
    EXPECT_GT(compared, 20);
    EXPECT_GT(proven, compared * (rough ? 1 : 3) / 4);
  }
}

/// Layers that are all alike, of which each can be recomputed.
LayerTable alike(int layers, double forward_s, double backward_s) {
  LayerTable table{.path = config("gpt_96.yaml").path, .global_batch = 4};
  LayerCosts& costs = table.sizes.emplace_back();
  for (int number = 0; number < layers; ++number) {
    Layer layer{.name = "layer." + std::to_string(number)};
    layer.forward_s = forward_s;
    layer.backward_s = backward_s;
    layer.saved_bytes = 20;
    layer.recompute = {{.name = "full", .time_s = forward_s, .freed_bytes = 18}};
    costs.layers.push_back(layer);
  }
  return table;
}

/// The choices that take least time are the same for layers that are alike, wherever they are.
TEST(LayersByTrying, RecomputeLiesWhereItLengthensTheStepLeast) {
  for (int i = 0; i < 8; ++i) {
    SCOPED_TRACE(i);
    const LayerTable table = alike(8, 2 + i % 3, 4 + i % 5);
    const Profile profile = layer_profile(table);
    const Graph model = layer_graph(table);
    const int64_t memory_bytes = 200 + 7 * i;
    const std::string schedule = i % 4 == 3 ? "interleaved-1f1b" : "looped-bfs";
    const auto best_s = best_of_splits(profile, model, schedule, 2, 4, memory_bytes);
    ASSERT_TRUE(best_s);
    const Planned found = planned(table, asked(schedule, 2, 2, memory_bytes));
    EXPECT_DOUBLE_EQ(found.simulation.makespan_s, *best_s);
  }
}

TEST(LayersByTrying, WithOneStagePerRankNoRoughPlanIsBelowTheBound) {
  std::mt19937_64 random(3);
  int compared = 0;
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE(i);
    const LayerTable table = random_table(random, true);
    const Profile profile = layer_profile(table);
    const Graph model = layer_graph(table);
    const int64_t memory_bytes = 100 + static_cast<int64_t>(random() % 200);
    const std::string schedule = random() % 2 == 0 ? "gpipe" : "1f1b";
    const auto best_s = best_of_all(profile, model, schedule, 2, memory_bytes);
    if (!best_s) continue;
    const Planned found = planned(table, asked(schedule, 2, 1, memory_bytes));
    EXPECT_LE(found.lower_bound_s, *best_s * (1 + test::rounding));
    if (!found.complete) {
      EXPECT_LE(found.proven_s(), *best_s * (1 + test::rounding));
    }
    EXPECT_GE(found.simulation.makespan_s, *best_s * (1 - test::rounding));
    EXPECT_LE(std::ranges::max(found.simulation.peak_memory_bytes), memory_bytes);
    ++compared;
  }
  EXPECT_GT(compared, 40);
}

}  // namespace
}  // namespace penstock
