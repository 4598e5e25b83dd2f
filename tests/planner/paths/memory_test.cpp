// Bounds of boxes whose ranks recompute, against all splits with all choices of their layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "pipeline/layers/layer_model.hpp"
#include "planner/layouts/layout_search.hpp"
#include "planner/paths/box_bound.hpp"
#include "planner/paths/full_ranks.hpp"
#include "planner/rank_model.hpp"
#include "tests/planner/chains.hpp"
#include "tests/planner/layer_tables.hpp"
#include "tests/planner/paths/boxes.hpp"

namespace penstock::test {
namespace {

constexpr double never_s = std::numeric_limits<double>::infinity();

/// A table of layers on two ranks of two stages each; `best_s`: of each split, over all choices
/// that fit.
struct MemoryCase {
  std::shared_ptr<const ProgramPaths> paths;
  std::map<std::vector<int>, double> best_s;
};

/// With backwards in two parts, for the schedules that run these.
void divide_backwards(LayerTable& table, std::mt19937_64& random) {
  for (Layer& layer : table.sizes.front().layers) {
    layer.has_parts = true;
    layer.backward_input_s = static_cast<double>(1 + random() % 5);
    layer.backward_weight_s = static_cast<double>(1 + random() % 5);
    layer.backward_s = layer.backward_input_s + layer.backward_weight_s;
  }
}

void for_each_case(uint64_t from, uint64_t to, bool rough,
                   const std::function<void(const MemoryCase&, std::mt19937_64&)>& check) {
  for (uint64_t seed = from; seed < to; ++seed) {
    std::mt19937_64 random(seed);
    LayerTable table = random_table(random, rough, 5 + static_cast<int64_t>(random() % 2));
    table.global_batch = 4;
    const char* all[] = {"interleaved-1f1b", "looped-bfs", "interleaved-zb", "zbv", "dualpipev"};
    const std::string schedule = all[random() % 5];
    if (schedule != "interleaved-1f1b" && schedule != "looped-bfs") divide_backwards(table, random);
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ", " << schedule);
    const Profile profile = layer_profile(table);
    const Graph model = layer_graph(table);
    const PlanRequest request{.ranks = 2,
                              .schedules = {schedule},
                              .stages_per_rank = 2,
                              .memory_bytes = 100 + static_cast<int64_t>(random() % 300)};
    const RankModel rank_model(profile, model, nullptr, request, nullptr);
    const LayoutSearch search(rank_model.inputs(), rank_model.chain(), request, 2);
    const PipelineLayout layout = search.layouts()[search.layouts().size() - 1];
    ASSERT_EQ(layout.stages(), 4);
    const auto space = search.open(layout);
    if (!space) continue;
    MemoryCase one;
    const std::vector<int> ranks = layout.compute().rank_of_stage;
    for (const std::vector<int>& begins : all_splits(rank_model.chain().units(), 4)) {
      Plan split = plan_of(profile, model, schedule, 2, begins);
      for (size_t stage = 0; stage < ranks.size(); ++stage) split.stages[stage].rank = ranks[stage];
      one.best_s[begins] = best_of(profile, model, split, *request.memory_bytes).value_or(never_s);
      if (!one.paths) one.paths = space->paths(begins);
      if (one.paths && !one.paths->memory()) one.paths = nullptr;
    }
    if (one.paths) check(one, random);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(SplitMemory, NoSplitOfABoxFitsAndIsFasterThanItsBound) {
  int64_t held = 0, recompute = 0, sharp = 0;
  for (const bool rough : {false, true})
    for_each_case(0, 150, rough, [&](const MemoryCase& one, std::mt19937_64& random) {
      const BoxBound bounds(one.paths);
      const SplitTimes& times = one.paths->times();
      DivisionChoice choice(one.paths->ranks(), times.stages());
      const BoxBound::Bound all = bounds.bound(bounds.all(), {}, {never_s, never_s}, choice);
      for (int i = 0; i < 6; ++i) {
        const SplitBox box = i == 0 ? bounds.all() : random_box(bounds.all(), random);
        std::vector<double> steps;
        double paths_s = never_s;
        for (const auto& [begins, step_s] : one.best_s) {
          if (!holds(box, times, begins)) continue;
          steps.push_back(step_s);
          paths_s = std::min(paths_s, one.paths->longest_s(times.of(begins)));
        }
        std::ranges::sort(steps);
        const double least_s = steps.empty() ? never_s : steps.front();
        const double most_s = steps.empty() ? never_s : steps[random() % steps.size()];
        const BoxBound::Bound bound = bounds.bound(box, i % 2 == 0 ? BoxBound::Known{} : all.known,
                                                   {never_s, most_s}, choice);
        EXPECT_LE(bound.seconds, least_s * (1 + rounding));
        for (const auto& [begins, step_s] : one.best_s) {
          if (!holds(box, times, begins) || step_s > most_s || step_s == never_s) continue;
          EXPECT_TRUE(bound.box && holds(*bound.box, times, begins));
        }
        if (least_s == never_s) continue;
        ++held;
        recompute += bound.seconds > paths_s * (1 + rounding);
        sharp += bound.seconds > least_s * 0.95;
      }
    });
  EXPECT_GT(held, 300);
  EXPECT_GT(recompute, held / 5);
  EXPECT_GT(sharp, held / 4);
}

/// Paths of a split alone, with the least that each rank recomputes, and with what it recomputes by
/// prices of backwards.
TEST(SplitMemory, NoSplitFitsAndIsFasterThanItsPaths) {
  int64_t fitting = 0, recompute = 0, sharp = 0, priced = 0, best = 0;
  for_each_case(150, 350, false, [&](const MemoryCase& one, std::mt19937_64&) {
    for (const auto& [begins, step_s] : one.best_s) {
      const double least_s = one.paths->split_s(begins);
      EXPECT_LE(least_s, step_s * (1 + rounding));
      if (step_s == never_s) continue;
      ++fitting;
      recompute += least_s > one.paths->longest_s(one.paths->times().of(begins)) * (1 + rounding);
      sharp += least_s > step_s * (1 - 1e-9);
      const double expected_s = one.paths->expected_s(begins);
      if (expected_s == never_s) continue;
      const double priced_s = one.paths->backward_prices(begins).seconds;
      EXPECT_GE(priced_s, step_s * (1 - rounding));
      priced += priced_s < expected_s;
      best += priced_s < step_s * (1 + rounding);
    }
  });
  EXPECT_GT(fitting, 300);
  EXPECT_GT(recompute, fitting / 5);
  EXPECT_GT(sharp, fitting / 5);
  EXPECT_GT(priced, 0);
  EXPECT_GT(best, fitting * 9 / 10);
}

/// Each two ranks that are full, against all splits of random boxes.
TEST(FullRanks, NoSplitTakesLessThanTheySay) {
  int64_t asked = 0, told = 0, alone = 0;
  for_each_case(350, 500, false, [&](const MemoryCase& one, std::mt19937_64& random) {
    const SplitTimes& times = one.paths->times();
    const SplitBox all = times.all();
    const auto none_is_faster = [&](const SplitBox& box, double seconds) {
      return FullRanks(*one.paths).none_is_faster(box, seconds);
    };
    for (int i = 0; i < 20; ++i) {
      SplitBox box = i == 0 ? all : random_box(all, random);
      if (!tighten(box, times.rank_of_stage(), times.units())) continue;
      double least_s = never_s;
      for (const auto& [begins, step_s] : one.best_s)
        if (holds(box, times, begins)) least_s = std::min(least_s, step_s);
      if (least_s == never_s) continue;
      EXPECT_FALSE(none_is_faster(box, least_s * (1 + 1e-6)));
      ++asked;
      if (!none_is_faster(box, least_s * (1 - 1e-6))) continue;
      ++told;
      SplitBox narrow = box;
      one.paths->shared()->narrow(narrow, least_s * (1 - 1e-6));
      alone += !tighten(narrow, times.rank_of_stage(), times.units());
    }
  });
  EXPECT_GT(asked, 300);
  EXPECT_GT(told, alone + 10);
  EXPECT_GT(alone, 20);
}

}  // namespace
}  // namespace penstock::test
