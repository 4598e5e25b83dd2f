// How far a search goes: where it ends, where it begins, and how few splits it simulates.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "planner/paths/program_paths.hpp"
#include "planner/splits/search.hpp"
#include "tests/planner/splits/search_problem.hpp"

namespace penstock::test {
namespace {

TEST(SearchEffort, StopsAfterItsEffortAndSaysWhatMightBeLeft) {
  for (uint64_t seed = 8000; seed < 8050; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = make_problem(seed);
    const Simulate simulate = [&](size_t space, const std::vector<int>& begins) {
      return outcome(problem, space, begins);
    };
    const SearchResult result = search_as(problem, INT64_MAX, {.effort = 1}, simulate);
    const auto best = try_all(problem, INT64_MAX, SearchObjective::step);
    ASSERT_TRUE(result.best);
    EXPECT_GE(result.best->outcome.step_s, best->outcome.step_s);
    if (result.complete) continue;
    EXPECT_LE(std::min(result.open_bound_s, result.best->outcome.step_s),
              best->outcome.step_s * (1 + rounding));
  }
}

TEST(SearchEffort, StopsAfterItsEffortAlsoWhereNothingFits) {
  Problem problem;
  problem.chain = random_chain(5, {.units = 60, .transfer_scale = 0.2});
  problem.ranks = 8;
  problem.candidates = {{"1f1b", 32}};
  const Simulate too_large = [](size_t, const std::vector<int>&) {
    return SplitOutcome{1e6, INT64_MAX, 1};
  };
  const SplitSearch how{.effort = 20'000};
  const SearchResult result = search_as(problem, INT64_MAX - 1, how, too_large);
  EXPECT_FALSE(result.best);
  EXPECT_FALSE(result.complete);
  EXPECT_GT(result.spaces.at(0).simulated, 0);
  EXPECT_LT(result.spaces.at(0).simulated, how.effort);
}

TEST(SearchEffort, SimulatesNothingOfASpaceInWhichNothingFits) {
  struct Proposing : Opened {
    using Opened::Opened;
    std::vector<int> proposal(int number) const override {
      return number > 0 ? std::vector<int>() : std::vector<int>{0, 8, 16, 24, 32, 40, 48, 56};
    }
  };
  Problem problem;
  problem.chain = random_chain(5, {.units = 60});
  problem.ranks = 8;
  problem.candidates = {{"1f1b", 32}};
  const int64_t least = splits_of(problem, 0, false)->min_bytes();
  for (const int64_t limit : {least - 1, least}) {
    int64_t simulated = 0;
    const Simulate count = [&](size_t, const std::vector<int>&) {
      ++simulated;
      return SplitOutcome{1e6, INT64_MAX, 1};
    };
    const SearchSpace space{.memory_limit = limit, .open = [&] {
                              return std::make_unique<Proposing>(splits_of(problem, 0, false), 0,
                                                                 count);
                            }};
    const SearchResult result = search_in_blocks({space}, {.effort = 1000});
    EXPECT_FALSE(result.best);
    EXPECT_EQ(simulated > 0, limit == least);
    EXPECT_EQ(result.complete, limit < least);
  }
}

// 60 equal units on 8 ranks: one has 8, whichever it is and whatever the others have.
TEST(SearchEffort, EndsWhereNothingLeftIsFasterByWhatCounts) {
  Problem problem;
  problem.chain = random_chain(5, {.units = 60, .equal = true, .extras = false});
  problem.chain.costs.cut_forward_s.assign(59, 0.0);
  problem.chain.costs.cut_backward_s.assign(59, 0.0);
  problem.ranks = 8;
  problem.candidates = {{"gpipe", 32}};
  const double least_s = splits_of(problem, 0, false)->min_s();
  double slower = near_enough / 2;
  const Simulate simulate = [&](size_t, const std::vector<int>&) {
    return SplitOutcome{least_s * (1 + slower), 1, 1};
  };
  const SplitSearch how{.effort = 40'000};
  const SearchResult near = search_as(problem, INT64_MAX, how, simulate);
  EXPECT_FALSE(near.complete);
  EXPECT_LT(near.spaces.at(0).simulated, how.effort / 4);
  EXPECT_GE(near.open_bound_s, near.best->outcome.step_s * (1 - near_enough));
  slower = near_enough * 2;
  EXPECT_GT(search_as(problem, INT64_MAX, how, simulate).spaces.at(0).simulated,
            near.spaces.at(0).simulated);
}

TEST(SearchEffort, BeginsWithProposalsUntilOneFits) {
  Problem problem;
  problem.chain = random_chain(5, {.units = 60, .transfer_scale = 0.2});
  problem.ranks = 8;
  problem.candidates = {{"1f1b", 32}};
  std::vector<std::vector<int>> simulated;
  const Simulate only_the_second = [&](size_t, const std::vector<int>& begins) {
    simulated.push_back(begins);
    return SplitOutcome{1e6, begins[1] == 2 ? 1 : INT64_MAX, 1};
  };
  class Proposing : public Opened {
   public:
    using Opened::Opened;
    std::vector<int> proposal(int number) const override {
      return {0, 1 + number, 4, 5, 6, 7, 8, 9};
    }
  };
  const SearchSpace space{.memory_limit = INT64_MAX - 1, .open = [&] {
                            return std::make_unique<Proposing>(splits_of(problem, 0, false), 0,
                                                               only_the_second);
                          }};
  const SearchResult result = search_in_blocks({space}, {.effort = 1});
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.best->begins[1], 2);
  ASSERT_GE(simulated.size(), 2U);
  EXPECT_EQ(simulated[0][1], 1);
  EXPECT_EQ(simulated[1][1], 2);
}

TEST(SearchEffort, StopsWhereItWouldKeepTooManyNodes) {
  Problem problem;
  problem.chain = random_chain(5, {.units = 60, .transfer_scale = 0.2});
  problem.ranks = 8;
  problem.candidates = {{"gpipe", 32}, {"1f1b", 32}};
  const Simulate simulate = [&](size_t space, const std::vector<int>& begins) {
    return outcome(problem, space, begins);
  };
  const SearchResult few = search_as(problem, INT64_MAX, {.nodes = 100}, simulate);
  EXPECT_FALSE(few.complete);
  EXPECT_TRUE(search_as(problem, INT64_MAX, {}, simulate).complete);
}

// Simulations are slower than their bounds, so that many splits may be the best for long.
TEST(SearchEffort, GoesOnWithFewNodesWhereTheyAreMany) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    Problem problem;
    problem.chain = random_chain(seed, {.units = 24, .equal = true, .transfer_scale = 0.2});
    problem.ranks = 6;
    problem.candidates = {{"1f1b", 8}};
    const auto splits = splits_of(problem, 0, false);
    const Simulate simulate = [&](size_t, const std::vector<int>& begins) {
      return SplitOutcome{1.3 * splits->split_s(begins), 1, 1};
    };
    const SearchResult all = search_as(problem, INT64_MAX, {}, simulate);
    const SearchResult few = search_as(problem, INT64_MAX, {.nodes = 16'000}, simulate);
    EXPECT_TRUE(few.complete);
    EXPECT_EQ(few.best->begins, all.best->begins);
  }
}

// Eight spaces have better bounds than the ninth, but no good splits.
TEST(SearchEffort, GoesThroughTheSpaceWithTheBestSplitToo) {
  class Proposing : public Opened {
   public:
    using Opened::Opened;
    std::vector<int> proposal(int number) const override {
      return number == 0 ? std::vector<int>{0, 1, 2, 3, 4, 5} : std::vector<int>{};
    }
  };
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    Problem problem;
    problem.chain = random_chain(seed, {.units = 40, .transfer_scale = 0.2});
    problem.ranks = 6;
    problem.candidates.assign(8, {"1f1b", 8});
    problem.candidates.emplace_back("1f1b", 64);
    const auto ninth = splits_of(problem, 8, false);
    ASSERT_GT(ninth->min_s(), splits_of(problem, 0, false)->min_s());
    std::set<std::vector<int>> simulated;  // of the ninth
    const Simulate simulate = [&](size_t space, const std::vector<int>& begins) {
      if (space < 8) return SplitOutcome{1e6, 1, 1};
      simulated.insert(begins);
      return outcome(problem, space, begins);
    };
    std::vector<SearchSpace> spaces;
    for (size_t c = 0; c < 9; ++c)
      spaces.push_back({.open = [&, c] {
        return std::make_unique<Proposing>(splits_of(problem, c, false), c, simulate);
      }});
    const SearchResult found = search_in_blocks(spaces, {.effort = 400'000});
    const std::set<std::vector<int>> beside = std::exchange(simulated, {});
    ASSERT_TRUE(search_in_blocks({spaces[8]}, {}).complete);
    EXPECT_EQ(found.best->space, 8U);
    for (const std::vector<int>& begins : simulated) {
      const bool may_be_faster =
          ninth->split_s(begins) < (1 - near_enough) * found.best->outcome.step_s;
      EXPECT_TRUE(beside.contains(begins) || !may_be_faster);
    }
  }
}

// The only split has recompute of which more effort might always tell more.
TEST(SearchEffort, LooksAtOneSplitWithAtMostAQuarterOfIt) {
  Problem problem;
  problem.chain = random_chain(5, {.units = 4});
  problem.ranks = 4;
  problem.candidates = {{"1f1b", 8}};
  class Unsettled : public Opened {
   public:
    Unsettled(std::unique_ptr<const SplitSpace> splits, std::vector<int64_t>& efforts,
              const Simulate& none)
        : Opened(std::move(splits), 0, none), efforts_(efforts) {}
    SplitOutcome simulate(const std::vector<int>&, const Aim& aim) override {
      efforts_.push_back(aim.effort);
      return {.step_s = 1e6, .peak_bytes = 1, .effort = aim.effort, .slack_s = 1e5, .more = true};
    }

   private:
    std::vector<int64_t>& efforts_;
  };
  for (const int64_t effort : {10'000'000, 100'000'000, 1'000'000'000}) {
    std::vector<int64_t> efforts;
    const Simulate none;
    const SearchSpace space{.open = [&] {
      return std::make_unique<Unsettled>(splits_of(problem, 0, false), efforts, none);
    }};
    const SearchResult result = search_in_blocks({space}, {.effort = effort});
    EXPECT_FALSE(result.complete);
    EXPECT_LE(result.open_bound_s, 1e6 - 1e5);
    EXPECT_GT(efforts.back(), effort / 16);
    EXPECT_LE(efforts.back(), effort / 4);
    EXPECT_TRUE(std::ranges::is_sorted(efforts));
  }
}

int64_t simulated(const SearchResult& result) {
  int64_t sum = 0;
  for (const auto& [number, space] : result.spaces) sum += space.simulated;
  return sum;
}

TEST(SearchEffort, SimulatesFarFewerSplitsThanThereAre) {
  int64_t most = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Problem problem;
    problem.chain = random_chain(seed, {.units = 22, .transfer_scale = 0.02});
    problem.ranks = 4;
    problem.candidates = {{"1f1b", 16}};
    EXPECT_EQ(splits_of(problem, 0, false)->splits(), 1330);
    most = std::max(most, simulated(search(problem, INT64_MAX, SearchObjective::step)));
  }
  RecordProperty("max_simulated_of_1330", static_cast<int>(most));
  EXPECT_LT(most, 1330 / 4);
}

TEST(SearchEffort, SimulatesNoSplitWhosePathsAreLonger) {
  int64_t bounded = 0, followed = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    Problem problem;
    problem.chain = random_chain(seed, {.units = 14, .transfer_scale = 0.2});
    problem.ranks = 4;
    problem.candidates = {{"gpipe", 6}};
    const Program compute = compute_program("gpipe", 4, 6);
    const auto paths = std::make_shared<const ProgramPaths>(
        compute,
        SplitTimes(schedule_costs(problem.chain, "gpipe"), placement(compute), equal_ranks(4)));
    class Followed : public Opened {
     public:
      Followed(std::unique_ptr<const SplitSpace> splits, const Simulate& simulate,
               std::shared_ptr<const ProgramPaths> paths)
          : Opened(std::move(splits), 0, simulate), paths_(std::move(paths)) {}
      std::shared_ptr<const ProgramPaths> paths(const std::vector<int>&) const override {
        return paths_;
      }

     private:
      std::shared_ptr<const ProgramPaths> paths_;
    };
    const Simulate simulate = [&](size_t space, const std::vector<int>& begins) {
      return outcome(problem, space, begins);
    };
    const SearchSpace space{.memory_limit = INT64_MAX, .open = [&] {
                              return std::make_unique<Followed>(splits_of(problem, 0, true),
                                                                simulate, paths);
                            }};
    const SearchResult with_paths = search_in_blocks({space}, {});
    const SearchResult without = search(problem, INT64_MAX, SearchObjective::step, true);
    ASSERT_TRUE(with_paths.best);
    EXPECT_TRUE(with_paths.complete);
    EXPECT_EQ(with_paths.best->begins, without.best->begins);
    EXPECT_EQ(with_paths.best->outcome.step_s, without.best->outcome.step_s);
    bounded += simulated(without);
    followed += simulated(with_paths);
  }
  EXPECT_LT(followed, bounded);
}

// 98 units in 96 stages: two of 97 cuts are left out.
TEST(SearchEffort, CountsSplitsOfNearlyAsManyStages) {
  Problem problem;
  problem.chain = random_chain(5, {.units = 98});
  problem.ranks = 96;
  problem.candidates = {{"gpipe", 1}};
  EXPECT_EQ(splits_of(problem, 0, true)->splits(), 4656);
}

TEST(SearchEffort, LongChainsStayExactlySearchable) {
  // 341,149,446 splits: only pruning makes this end.
  Problem problem;
  problem.chain = random_chain(5, {.units = 60, .transfer_scale = 0.2});
  problem.ranks = 8;
  problem.candidates = {{"gpipe", 32}, {"1f1b", 32}};
  EXPECT_EQ(splits_of(problem, 0, false)->splits(), 341'149'446);
  const SearchResult result = search(problem, INT64_MAX, SearchObjective::step);
  ASSERT_TRUE(result.best);
  EXPECT_LT(simulated(result), 100'000);
}

}  // namespace
}  // namespace penstock::test
