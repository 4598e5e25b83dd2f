// The best recompute of ranks, against all choices of small tables of layers.
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/recompute/annealing.hpp"
#include "planner/recompute/best_recompute.hpp"
#include "tests/planner/chains.hpp"
#include "tests/planner/paths/memory_cases.hpp"

namespace penstock::test {
namespace {

/// Relative: as exact as the search is.
constexpr double exact_within = 1e-8;

/// The longest path of a split with such choices; infinite where a rank does not fit.
double step_s(const ProgramPaths& paths, const std::vector<int>& begins,
              const std::vector<int>& choices) {
  std::vector<double> longer_s(begins.size(), 0.0);
  for (int rank = 0; rank < paths.ranks(); ++rank)
    if (!paths.recompute()->lengthen(static_cast<size_t>(rank), begins, choices, longer_s))
      return never_s;
  Times times = paths.times().of(begins);
  paths.memory()->lengthen(paths.times(), longer_s, times);
  return paths.longest_s(times);
}

TEST(BestRecompute, EqualsTryingAllChoices) {
  int64_t fitting = 0, placed = 0;
  for_each_memory_case(0, 260, false, [&](const MemoryCase& one, std::mt19937_64&) {
    for (const auto& [begins, best_s] : one.best_s) {
      const BestRecompute found = best_recompute(*one.paths, begins, never_s, 1'000'000);
      EXPECT_LE(found.bound_s, best_s * (1 + exact_within));
      if (best_s == never_s) continue;
      EXPECT_GE(found.bound_s, best_s * (1 - exact_within));
      EXPECT_DOUBLE_EQ(found.step_s, step_s(*one.paths, begins, found.choices));
      ++fitting;
      placed += one.paths->expected_s(begins) > best_s * (1 + exact_within);
    }
  });
  EXPECT_GT(fitting, 300);
  EXPECT_GT(placed, 10);
}

TEST(BestRecompute, IsNotLookedForWhereItTakesTooLong) {
  int64_t slower = 0, faster = 0;
  for_each_memory_case(200, 300, false, [&](const MemoryCase& one, std::mt19937_64& random) {
    for (const auto& [begins, best_s] : one.best_s) {
      if (best_s == never_s) continue;
      const bool below = random() % 2 == 0;
      const double most_s = best_s * (below ? 0.99 : 1.01);
      const BestRecompute found = best_recompute(*one.paths, begins, most_s, 1'000'000);
      EXPECT_LE(found.bound_s, best_s * (1 + exact_within));
      EXPECT_GE(found.bound_s, std::min(most_s, best_s) * (1 - exact_within));
      (below ? slower : faster) += found.choices.empty() ? 0 : 1;
    }
  });
  EXPECT_GT(faster, 4 * slower);
}

/// With no effort for all options of a rank it asks for the cheapest ones.
TEST(BestRecompute, IsBoundedThoughThereIsNoEffortForIt) {
  int64_t fitting = 0, best = 0;
  for_each_memory_case(300, 400, false, [&](const MemoryCase& one, std::mt19937_64&) {
    for (const auto& [begins, best_s] : one.best_s) {
      const BestRecompute found = best_recompute(*one.paths, begins, never_s, 1);
      EXPECT_LE(found.bound_s, best_s * (1 + exact_within));
      if (found.choices.empty() || best_s == never_s) continue;
      ++fitting;
      best += found.step_s <= best_s * (1 + exact_within);
    }
  });
  EXPECT_GT(fitting, 50);
  EXPECT_GT(best, fitting / 2);
}

TEST(BestRecompute, LeavesOffWhenItIsToStop) {
  int64_t gave_up = 0;
  for_each_memory_case(300, 400, false, [&](const MemoryCase& one, std::mt19937_64&) {
    for (const auto& [begins, best_s] : one.best_s) {
      int asked = 0;
      const auto stop = [&] { return ++asked > 1; };
      const BestRecompute found = best_recompute(*one.paths, begins, never_s, 1'000'000, stop);
      EXPECT_LE(found.bound_s, best_s * (1 + exact_within));
      gave_up += found.gave_up;
      EXPECT_LE(asked, 4);
    }
  });
  EXPECT_GT(gave_up, 50);
}

TEST(Annealing, FindsTheBestOfAllSplitsAndChoices) {
  constexpr int64_t effort = 100'000;
  int64_t cases = 0, best = 0;
  for_each_memory_case(400, 480, false, [&](const MemoryCase& one, std::mt19937_64& random) {
    double best_s = never_s;
    for (const auto& [begins, step_s] : one.best_s)
      best_s = std::min(best_s, best_recompute(*one.paths, begins, best_s, 1'000'000).step_s);
    const auto seed = static_cast<uint32_t>(random());
    const std::vector<int> first = one.best_s.begin()->first;
    Annealing annealing(*one.paths, first, effort, seed);
    while (!annealing.ended()) annealing.go_on(effort / 7);
    Annealing again(*one.paths, first, effort, seed);
    again.go_on(effort);
    EXPECT_EQ(again.begins(), annealing.begins());
    EXPECT_EQ(again.choices(), annealing.choices());
    if (best_s == never_s) return;
    EXPECT_GE(annealing.step_s(), best_s * (1 - exact_within));
    EXPECT_DOUBLE_EQ(annealing.step_s(),
                     step_s(*one.paths, annealing.begins(), annealing.choices()));
    ++cases;
    best += annealing.step_s() <= best_s * (1 + exact_within);
  });
  EXPECT_GT(cases, 20);
  EXPECT_GT(best, cases * 9 / 10);
}

}  // namespace
}  // namespace penstock::test
