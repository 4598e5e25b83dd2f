// Least levels against trying all of them; the bound against every set of units.
#include "planner/bounds/recompute.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "planner/bounds/recompute_bound.hpp"

namespace penstock {
namespace {

using ::testing::ElementsAre;

Plan plan_of(const std::vector<int>& rank_of_stage) {
  Plan plan;
  for (const int rank : rank_of_stage) plan.stages.push_back({.rank = rank});
  return plan;
}

TEST(RecomputeLevels, FillTheStagesOfARankInOrder) {
  const std::vector<int> ranks{0, 1, 0};
  const RecomputeLevels levels(ranks, {2, 1, 3});
  Plan plan = plan_of(ranks);
  levels.note({3, 1}, plan);
  EXPECT_EQ(plan.stages[0].recompute, Recompute{.units = 2});
  EXPECT_EQ(plan.stages[1].recompute, Recompute{.whole = true});  // its only unit
  EXPECT_EQ(plan.stages[2].recompute, Recompute{.units = 1});
  levels.note({levels.whole(0), 0}, plan);
  EXPECT_EQ(plan.stages[0].recompute, Recompute{.whole = true});
  EXPECT_EQ(plan.stages[2].recompute, Recompute{.whole = true});
  EXPECT_FALSE(plan.stages[1].recompute.any());
}

TEST(RecomputeLevels, AreTheLeastThatFitOnEachRank) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    const int units = 1 + static_cast<int>(random() % 9);
    const RecomputeLevels levels({0, 1}, {units, 3});
    std::vector<int64_t> held(static_cast<size_t>(units) + 1);  // the less the more units
    int64_t bytes = 0;
    for (auto of = held.rbegin(); of != held.rend(); ++of) {
      *of = bytes += static_cast<int64_t>(random() % 5);
    }
    const auto limit = static_cast<int64_t>(random() % 20);
    const MemoryLimit limits = memory_limit({limit, static_cast<int64_t>(random() % 20)});
    const std::vector<int> found = min_levels(levels, limits, [&](const std::vector<int>& of) {
      const auto level = static_cast<size_t>(of[0]);
      return std::vector<int64_t>{level < held.size() ? held[level] : 0, 0};
    });
    int expected = 0;
    while (expected <= units && held[static_cast<size_t>(expected)] > limit) ++expected;
    ASSERT_THAT(found, ElementsAre(expected, 0));
  }
}

TEST(RecomputeBound, IsNeverAboveAnySetOfUnitsThatFreesAsMuch) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 500; ++round) {
    std::vector<RecomputeBound::Unit> units(1 + random() % 7);
    for (RecomputeBound::Unit& unit : units) {
      unit = {static_cast<double>(random() % 10), static_cast<double>(random() % 10)};
    }
    const RecomputeBound bound(units);
    for (unsigned set = 0; set < 1U << units.size(); ++set) {
      double seconds = 0, bytes = 0;
      for (size_t i = 0; i < units.size(); ++i) {
        if ((set >> i & 1U) == 0) continue;
        seconds += units[i].forward_s;
        bytes += units[i].bytes;
      }
      ASSERT_LE(bound.seconds(bytes), seconds * (1 + 1e-12));
    }
  }
}

TEST(RecomputeBound, TakesTheCheapestBytesFirstAndPartsOfUnits) {
  const RecomputeBound bound({{.forward_s = 8, .bytes = 4}, {.forward_s = 1, .bytes = 2}});
  EXPECT_EQ(bound.seconds(0), 0);
  EXPECT_EQ(bound.seconds(1), 0.5);
  EXPECT_EQ(bound.seconds(3), 1 + 2);
  EXPECT_EQ(bound.seconds(100), 9);
}

}  // namespace
}  // namespace penstock
