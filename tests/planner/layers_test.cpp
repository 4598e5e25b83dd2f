// Plans of layer tables, against instances whose best plan is known and against trying everything.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <random>

#include "base/error.hpp"
#include "base/file.hpp"
#include "pipeline/layers/layer_model.hpp"
#include "planner/open/split_order.hpp"
#include "planner/plan.hpp"
#include "simulator/costs/plan_costs.hpp"
#include "tests/planner/chains.hpp"

namespace penstock {
namespace {

constexpr int64_t MB = 1'000'000;

Planned planned(const LayerTable& table, const PlanRequest& request) {
  return make_plan(layer_profile(table), layer_graph(table), nullptr, request);
}

LayerTable config(const std::string& name) {
  return read_layers(std::string(PENSTOCK_CONFIGS) + "/layers/" + name);
}

PlanRequest asked(const std::string& schedule, int ranks, int stages_per_rank,
                  int64_t memory_bytes) {
  return {.ranks = ranks,
          .schedules = {schedule},
          .stages_per_rank = stages_per_rank,
          .memory_bytes = memory_bytes};
}

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

/// Layers of a few kinds, some without choices; all numbers are whole, so that ties are exact.
/// `rough`: with messages and memory that a backward takes meanwhile, where what a rank holds is no
/// sum over its layers.
LayerTable random_table(std::mt19937_64& random, bool rough) {
  const auto whole = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  LayerTable table{.path = config("gpt_96.yaml").path, .global_batch = whole(2, 5)};
  LayerCosts& costs = table.sizes.emplace_back();
  const int64_t layers = whole(3, 5);
  for (int64_t number = 0; number < layers; ++number) {
    Layer layer{.name = "layer." + std::to_string(number)};
    layer.forward_s = static_cast<double>(whole(1, 5));
    layer.backward_s = static_cast<double>(whole(1, 9));
    layer.static_bytes = whole(0, 60);
    layer.saved_bytes = whole(0, 40);
    for (int64_t choice = whole(0, 2); choice > 0 && layer.saved_bytes > 0; --choice) {
      RecomputeChoice one{.name = "choice" + std::to_string(choice)};
      one.time_s = static_cast<double>(whole(1, 6));
      one.freed_bytes = whole(1, layer.saved_bytes);
      one.working_bytes = rough ? whole(0, 50) : 0;
      layer.recompute.push_back(one);
    }
    if (rough && number + 1 < layers) layer.output_bytes = whole(0, 20);
    costs.layers.push_back(layer);
  }
  return table;
}

/// The least step of a split over all choices of all layers that fit.
std::optional<double> best_of(const Profile& profile, const Graph& model, const Plan& split,
                              int64_t memory_bytes) {
  const Analysis analysis = analyse(model);
  const std::vector<OperatorCost>& layers = profile.microbatches.front().operators;
  std::vector<size_t> choices(layers.size(), 0);
  std::optional<double> best_s;
  while (true) {
    Plan plan = split;
    const Slicing owners = slice(split, model, analysis);
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      if (choices[layer] == 0) continue;
      const std::string& name = layers[layer].recompute[choices[layer] - 1].name;
      const auto stage = static_cast<size_t>(owners.stage_of_operator[layer]);
      plan.stages[stage].recompute.layers[name].push_back(layers[layer].name);
    }
    const Slicing slicing = slice(plan, model, analysis);
    const Simulation run = simulate(lowered_program(plan, slicing),
                                    plan_costs(plan, model, slicing, profile), Network());
    if (std::ranges::max(run.peak_memory_bytes) <= memory_bytes)
      best_s = std::min(best_s.value_or(run.makespan_s), run.makespan_s);
    size_t next = 0;
    while (next < choices.size() && ++choices[next] > layers[next].recompute.size())
      choices[next++] = 0;
    if (next == choices.size()) return best_s;
  }
}

/// The plan of a split of the layers, rank by rank in turn.
Plan plan_of(const Profile& profile, const Graph& model, const std::string& schedule, int ranks,
             const std::vector<int>& begins) {
  Plan plan{.layers = true, .job = profile.job, .model_sha256 = model.sha256, .schedule = schedule};
  plan.microbatches = profile.job.global_batch;
  for (size_t stage = 0; stage < begins.size(); ++stage) {
    const auto first = static_cast<size_t>(begins[stage]);
    plan.stages.push_back({.rank = static_cast<int>(stage) % ranks,
                           .begin = stage == 0 ? "" : model.operators[first].name});
  }
  return plan;
}

/// The least over all splits on up to so many ranks, one stage on each.
std::optional<double> best_of_all(const Profile& profile, const Graph& model,
                                  const std::string& schedule, int most_ranks,
                                  int64_t memory_bytes) {
  const int layers = static_cast<int>(model.operators.size());
  std::optional<double> best_s;
  for (int ranks = 1; ranks <= std::min(most_ranks, layers); ++ranks) {
    for (const std::vector<int>& begins : test::all_splits(layers, ranks)) {
      const auto found_s =
          best_of(profile, model, plan_of(profile, model, schedule, ranks, begins), memory_bytes);
      if (found_s) best_s = std::min(best_s.value_or(*found_s), *found_s);
    }
  }
  return best_s;
}

TEST(Layers, WithOneStagePerRankPlansEqualTryingEverySplitAndEveryChoice) {
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

/// A rank with several stages chooses what takes it least time, wherever that is.
TEST(Layers, WithSeveralStagesPerRankNoPlanIsBelowTheBound) {
  std::mt19937_64 random(2);
  int compared = 0;
  for (int i = 0; i < 120; ++i) {
    SCOPED_TRACE(i);
    LayerTable table = random_table(random, true);
    table.global_batch = 4;
    const Profile profile = layer_profile(table);
    const Graph model = layer_graph(table);
    const int layers = static_cast<int>(model.operators.size());
    if (layers < 4) continue;
    const int64_t memory_bytes = 100 + static_cast<int64_t>(random() % 200);
    std::optional<double> best_s;
    for (const std::vector<int>& begins : test::all_splits(layers, 4)) {
      const auto found_s = best_of(
          profile, model, plan_of(profile, model, "interleaved-1f1b", 2, begins), memory_bytes);
      if (found_s) best_s = std::min(best_s.value_or(*found_s), *found_s);
    }
    if (!best_s) continue;
    const Planned found = planned(table, asked("interleaved-1f1b", 2, 2, memory_bytes));
    EXPECT_LE(found.lower_bound_s, *best_s * (1 + test::rounding));
    EXPECT_GE(found.simulation.makespan_s, *best_s * (1 - test::rounding));
    EXPECT_LE(std::ranges::max(found.simulation.peak_memory_bytes), memory_bytes);
    ++compared;
  }
  EXPECT_GT(compared, 20);
}

TEST(Layers, WithOneStagePerRankNoRoughPlanIsBelowTheBound) {
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
    EXPECT_GE(found.simulation.makespan_s, *best_s * (1 - test::rounding));
    EXPECT_LE(std::ranges::max(found.simulation.peak_memory_bytes), memory_bytes);
    ++compared;
  }
  EXPECT_GT(compared, 40);
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
