// The best-first search against trying every split with the real simulator.
#include "planner/splits/search.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/planner/splits/search_problem.hpp"

namespace penstock::test {
namespace {

void expect_equal(const std::optional<FoundSplit>& found,
                  const std::optional<FoundSplit>& expected) {
  ASSERT_EQ(found.has_value(), expected.has_value());
  if (!found) return;
  EXPECT_EQ(found->outcome.step_s, expected->outcome.step_s);
  EXPECT_EQ(found->outcome.peak_bytes, expected->outcome.peak_bytes);
  EXPECT_EQ(found->space, expected->space);
  EXPECT_EQ(found->begins, expected->begins);
}

TEST(Search, FindsWhatTryingAllFinds) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = make_problem(seed);
    const auto expected = try_all(problem, INT64_MAX, SearchObjective::step);
    const SearchResult result = search(problem, INT64_MAX, SearchObjective::step);
    expect_equal(result.best, expected);
    if (HasFailure()) return;
  }
}

TEST(Search, FindsItWhereNothingCrossesSomeCuts) {
  for (uint64_t seed = 1000; seed < 1300; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = make_problem(seed, true);
    expect_equal(search(problem, INT64_MAX, SearchObjective::step).best,
                 try_all(problem, INT64_MAX, SearchObjective::step));
    if (HasFailure()) return;
  }
}

TEST(Search, FindsItUnderAMemoryLimit) {
  for (uint64_t seed = 2000; seed < 2300; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = make_problem(seed);
    const auto free = try_all(problem, INT64_MAX, SearchObjective::step);
    const auto least = try_all(problem, INT64_MAX, SearchObjective::memory);
    const int64_t from = least->outcome.peak_bytes, to = free->outcome.peak_bytes;
    double before = 1e300;
    for (const int64_t limit : {from - 1, from, (from + to) / 2, to}) {
      const auto expected = try_all(problem, limit, SearchObjective::step);
      const auto found = search(problem, limit, SearchObjective::step).best;
      expect_equal(found, expected);
      EXPECT_EQ(found.has_value(), limit >= from);
      if (!found) continue;
      EXPECT_LE(found->outcome.step_s, before);  // more memory is never slower
      before = found->outcome.step_s;
    }
    if (HasFailure()) return;
  }
}

TEST(Search, FindsTheLeastMemory) {
  for (uint64_t seed = 3000; seed < 3300; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = make_problem(seed);
    expect_equal(search(problem, INT64_MAX, SearchObjective::memory).best,
                 try_all(problem, INT64_MAX, SearchObjective::memory));
    if (HasFailure()) return;
  }
}

TEST(Search, PrefersThePlanThatHoldsLessWhereStepsAreEqual) {
  Problem problem = make_problem(0);
  problem.chain =
      random_chain(7, {.units = 4, .equal = true, .extras = false, .transfer_scale = 0});
  problem.ranks = 4;
  problem.candidates = {{"gpipe", 8}, {"1f1b", 8}};
  const SearchResult result = search(problem, INT64_MAX, SearchObjective::step);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(problem.candidates[result.best->space].first, "1f1b");
}

TEST(Search, DecidesEqualStepsByKey) {
  // Costs of a few whole milliseconds and no memory: many splits take exactly as long as another.
  for (uint64_t seed = 5000; seed < 5600; ++seed) {
    SCOPED_TRACE(seed);
    Problem problem;
    const int units = 5 + static_cast<int>(seed % 4);
    problem.chain = random_chain(seed, {.units = units, .coarse = true, .extras = false});
    problem.ranks = 2 + static_cast<int>(seed / 4 % 4);
    problem.candidates = {{"gpipe", 2}, {"1f1b", 2}};
    if (seed % 2 == 0) problem.candidates = {{"gpipe", 4}, {"1f1b", 4}, {"gpipe", 4}, {"1f1b", 4}};
    for (const auto objective : {SearchObjective::step, SearchObjective::memory})
      expect_equal(search(problem, INT64_MAX, objective).best,
                   try_all(problem, INT64_MAX, objective));
    if (HasFailure()) return;
  }
}

TEST(Search, TrustsTheSimulatedPeakWhereTheClosedFormSaysLess) {
  for (uint64_t seed = 4000; seed < 4100; ++seed) {
    SCOPED_TRACE(seed);
    Problem problem = make_problem(seed);
    const auto free = try_all(problem, INT64_MAX, SearchObjective::step);
    const int64_t limit = free->outcome.peak_bytes - 1;
    Problem blind = problem;  // simulated as it is, bounded as if it held nothing
    blind.chain.fixed_bytes.assign(blind.chain.fixed_bytes.size(), 0);
    blind.chain.saved_bytes = blind.chain.fixed_bytes;
    const Simulate simulate = [&](size_t space, const std::vector<int>& begins) {
      return outcome(problem, space, begins);
    };
    expect_equal(search_as(blind, limit, {}, simulate).best,
                 try_all(problem, limit, SearchObjective::step));
    if (HasFailure()) return;
  }
}

TEST(Search, RefusesASimulationThatIsFasterThanItsBound) {
  const Simulate simulate = [](size_t, const std::vector<int>&) {
    return SplitOutcome{1e-9, 1, 0};
  };
  EXPECT_THROW(search_as(make_problem(3), INT64_MAX, {}, simulate), std::logic_error);
}

TEST(Search, MoreRanksThanUnitsIsEmpty) {
  Problem problem = make_problem(1);
  problem.ranks = problem.chain.costs.units() + 1;
  EXPECT_EQ(splits_of(problem, 0, false)->splits(), 0);
  EXPECT_FALSE(search(problem, INT64_MAX, SearchObjective::step).best);
}

TEST(Search, FindsTheSameWithWeakerBounds) {
  for (uint64_t seed = 6000; seed < 6300; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = make_problem(seed, seed % 2 == 0);
    for (const auto objective : {SearchObjective::step, SearchObjective::memory})
      expect_equal(search(problem, INT64_MAX, objective, true).best,
                   try_all(problem, INT64_MAX, objective));
    if (HasFailure()) return;
  }
}

TEST(Search, IsTheSameForAnyNumberOfThreads) {
  for (uint64_t seed = 7000; seed < 7050; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = make_problem(seed);
    const SearchResult one = search(problem, INT64_MAX, SearchObjective::step, false, 1);
    const SearchResult five = search(problem, INT64_MAX, SearchObjective::step, false, 5);
    expect_equal(five.best, one.best);
    ASSERT_EQ(five.spaces.size(), one.spaces.size());
    for (const auto& [space, seen] : one.spaces)
      EXPECT_EQ(five.spaces.at(space).simulated, seen.simulated);
    if (HasFailure()) return;
  }
}

TEST(Search, TakesTheLeastComplexThatIsFastEnough) {
  for (uint64_t seed = 9000; seed < 9200; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = make_problem(seed);
    const Simulate simulate = [&](size_t space, const std::vector<int>& begins) {
      return outcome(problem, space, begins);
    };
    const double max_s = 1.05 * try_all(problem, INT64_MAX, SearchObjective::step)->outcome.step_s;
    // The later a candidate, the simpler.
    std::optional<FoundSplit> expected;
    std::vector<SearchSpace> spaces;
    for (size_t c = 0; c < problem.candidates.size(); ++c) {
      Problem alone = problem;
      alone.candidates = {problem.candidates[c]};
      const auto best = try_all(alone, INT64_MAX, SearchObjective::step);
      if (best->outcome.step_s <= max_s) expected = FoundSplit{c, best->begins, best->outcome};
      spaces.push_back({.complexity = -static_cast<int64_t>(c), .open = [&, c] {
                          return std::make_unique<Opened>(splits_of(problem, c, false), c,
                                                          simulate);
                        }});
    }
    expect_equal(search_in_blocks(spaces, {.max_s = max_s}).best, expected);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace penstock::test
