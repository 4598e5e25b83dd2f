// Bounds of boxes whose ranks recompute, against all splits with all choices of their layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <ranges>
#include <vector>

#include "planner/paths/box_bound.hpp"
#include "planner/paths/full_ranks.hpp"
#include "planner/paths/least_split.hpp"
#include "planner/paths/rank_paths.hpp"
#include "tests/planner/chains.hpp"
#include "tests/planner/paths/boxes.hpp"
#include "tests/planner/paths/memory_cases.hpp"
#include "tests/planner/paths/whole_units.hpp"

namespace penstock::test {
namespace {

TEST(SplitMemory, NoSplitOfABoxFitsAndIsFasterThanItsBound) {
  int64_t held = 0, recompute = 0, sharp = 0;
  for (const bool rough : {false, true})
    for_each_memory_case(0, 150, rough, [&](const MemoryCase& one, std::mt19937_64& random) {
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

/// Four stages on two ranks, each unit of which recomputes by itself, or with its stage at once, or
/// keeps all.
TEST(SplitMemory, PricesAreOfTheLeastThatUnitsKeepAloneOrAtOnce) {
  std::mt19937 random(1);
  const auto draw = [&](int most) {
    return static_cast<int>(random() % static_cast<unsigned>(most));
  };
  constexpr int units = 7;
  int kept = 0, alone = 0, at_once = 0;
  for (int i = 0; i < 500; ++i) {
    std::vector<LayerChoices> choices;
    std::vector<int> saved, turn, again;
    StageTable bytes(units);
    for (int unit = 0; unit < units; ++unit) {
      saved.push_back(10 + draw(10));
      turn.push_back(draw(5));
      again.push_back(draw(10));
      choices.push_back({{.seconds = 1.0 + draw(3), .bytes = draw(10), .at_once = draw(10)}});
      for (int begin = 0; begin <= unit; ++begin) {
        StageBytes& of = bytes.at(begin, unit + 1);
        of.per_microbatch = std::accumulate(saved.begin() + begin, saved.end(), 0);
        of.turn = turn.back();
        of.again = again.back();
      }
    }
    const SplitMemory memory(bytes, choices, {}, four_stages, RankSpeeds({1, 1}), {}, {1, 1}, 0);
    std::vector<int> begins{0, 1 + draw(2), 3 + draw(2), 5 + draw(2)};
    const auto stage = static_cast<size_t>(draw(4));
    const int held = 1 + draw(4), turning = draw(2), second = draw(20);
    MemoryPrices prices(4);
    prices.saved[stage] = held;
    prices.turn[stage] = prices.again[stage] = turning;
    prices.second[stage] = second;
    const int end = stage < 3 ? begins[stage + 1] : units;
    double least = turning * turn[static_cast<size_t>(end) - 1];
    for (int unit = begins[stage]; unit < end; ++unit) {
      const auto u = static_cast<size_t>(unit);
      const LayerChoice& of = choices[u].front();
      const double here = held * saved[u], price = second * of.seconds;
      const double by_itself = here + price - static_cast<double>(held * of.bytes) +
                               (unit + 1 == end ? turning * again[u] : 0);
      const double with_stage = here + price - static_cast<double>((held - turning) * of.at_once);
      const double of_unit = std::min({here, by_itself, with_stage});
      kept += of_unit == here;
      alone += of_unit == by_itself;
      at_once += of_unit == with_stage;
      least += of_unit;
    }
    EXPECT_DOUBLE_EQ(SplitMemory::Priced(memory, prices).of(begins), least);
  }
  for (const int times : {kept, alone, at_once}) EXPECT_GT(times, 100);
}

/// Paths of a split alone, with the least that each rank recomputes.
/// The mean of a path through each rank.
Times mean_path(const ProgramPaths& paths) {
  Times mean(paths.times().size(), 0.0);
  for (const std::vector<Times>& of_rank : rank_paths(paths))
    for (size_t time = 0; time < mean.size(); ++time)
      mean[time] += of_rank.front()[time] / paths.ranks();
  return mean;
}

TEST(SplitMemory, NoSplitFitsAndIsFasterThanAllNeed) {
  int64_t fitting = 0, sharper = 0, sharp = 0, ruled_out = 0;
  for (const bool rough : {false, true})
    for_each_memory_case(500, 600, rough, [&](const MemoryCase& one, std::mt19937_64&) {
      const Times path = mean_path(*one.paths);
      const SplitNeeds needs = needs_of_all(one.paths->times(), *one.paths->memory(), path);
      const double least_s = std::ranges::min(one.best_s | std::views::values);
      EXPECT_LE(needs.seconds, least_s * (1 + rounding));
      const bool fits = needs.bytes <= one.paths->memory()->most_bytes();
      ruled_out += !fits;
      if (least_s == never_s) return;
      EXPECT_TRUE(fits);
      ++fitting;
      const double kept_s = LeastSplit(one.paths->times(), path, one.paths->times().all()).sum();
      EXPECT_GE(needs.seconds, kept_s * (1 - rounding));
      sharper += needs.seconds > kept_s * (1 + rounding);
      sharp += needs.seconds > least_s * 0.9;
    });
  EXPECT_GT(fitting, 40);
  EXPECT_GT(sharper, 3);
  EXPECT_GT(sharp, 5);
  EXPECT_GT(ruled_out, 10);
}

TEST(SplitMemory, NoSplitFitsAndIsFasterThanItsPaths) {
  int64_t fitting = 0, recompute = 0, sharp = 0;
  for_each_memory_case(150, 350, false, [&](const MemoryCase& one, std::mt19937_64&) {
    for (const auto& [begins, step_s] : one.best_s) {
      const double least_s = one.paths->split_s(begins);
      EXPECT_LE(least_s, step_s * (1 + rounding));
      if (step_s == never_s) continue;
      ++fitting;
      recompute += least_s > one.paths->longest_s(one.paths->times().of(begins)) * (1 + rounding);
      sharp += least_s > step_s * (1 - 1e-9);
      EXPECT_GE(one.paths->expected_s(begins), step_s * (1 - rounding));
    }
  });
  EXPECT_GT(fitting, 300);
  EXPECT_GT(recompute, fitting / 5);
  EXPECT_GT(sharp, fitting / 5);
}

/// Each two ranks that are full, against all splits of random boxes.
TEST(SplitRecompute, ListsChoicesForNoMoreThanItIsAllowed) {
  int64_t listed = 0, stopped = 0;
  for_each_memory_case(0, 30, false, [&](const MemoryCase& one, std::mt19937_64&) {
    const SplitRecompute& of = *one.paths->recompute();
    for (const auto& [begins, step_s] : one.best_s) {
      for (size_t rank = 0; rank < of.stages().size(); ++rank) {
        int64_t needed = 0, fewer = 0;
        const auto options = of.options(rank, begins, INT64_MAX, needed);
        ASSERT_TRUE(options);
        // Each of them was found to fit, by a product for each stage.
        EXPECT_GE(needed, static_cast<int64_t>(options->size() * of.stages()[rank].size()));
        EXPECT_FALSE(of.options(rank, begins, needed - 1, fewer));
        EXPECT_LE(fewer, needed);
        listed += static_cast<int64_t>(options->size());
        ++stopped;
      }
    }
  });
  EXPECT_GT(listed, 100);
  EXPECT_GT(stopped, 100);
}

TEST(FullRanks, NoSplitTakesLessThanTheySay) {
  int64_t asked = 0, told = 0, alone = 0;
  for_each_memory_case(350, 500, false, [&](const MemoryCase& one, std::mt19937_64& random) {
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
