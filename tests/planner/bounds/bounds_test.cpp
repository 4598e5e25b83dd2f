// Lower bounds against the real simulator on every split of thousands of small random chains.
#include "planner/bounds/bounds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "pipeline/program/schedule.hpp"
#include "tests/pipeline/in_flight.hpp"
#include "tests/planner/bounds/chain_bounds.hpp"
#include "tests/planner/chains.hpp"

namespace penstock::test {
namespace {

struct Case {
  Chain chain;
  int ranks, microbatches;
};

/// Covers every number of ranks up to 5, few and many microbatches, free to dominant transfers.
Case make_case(uint64_t seed, bool breaks) {
  const int units = 2 + static_cast<int>(seed % 6);
  ChainKind kind;
  kind.units = units;
  kind.extras = seed % 3 != 0;
  kind.equal = seed % 5 == 0;
  kind.breaks = breaks;
  const double scales[] = {0, 0.05, 0.5, 5};
  kind.transfer_scale = scales[seed / 7 % 4];
  return {random_chain(seed, kind), 1 + static_cast<int>(seed / 3 % std::min(units, 5)),
          1 + static_cast<int>(seed / 11 % 12)};
}

void expect_bounds_hold(const Case& c) {
  double min_any = std::numeric_limits<double>::infinity();
  const double chain_any = chain_lower_bound_s(c.chain.costs, c.ranks, c.microbatches);
  for (const std::string schedule : {"gpipe", "1f1b"}) {
    const ChainBound bound = bound_of(c.chain, schedule, c.ranks, c.microbatches);
    double least = std::numeric_limits<double>::infinity();
    for (const std::vector<int>& begins : all_splits(c.chain.costs.units(), c.ranks)) {
      const double step_s = simulate_split(c.chain, begins, schedule, c.microbatches).makespan_s;
      const double room = step_s * (1 + rounding);
      EXPECT_LE(split_lower_bound_s(c.chain.costs, begins, c.microbatches), room);
      EXPECT_LE(bound.split(begins), room);
      EXPECT_LE(bound.chain(), bound.split(begins) * (1 + rounding));
      least = std::min(least, step_s);
    }
    EXPECT_LE(bound.chain(), least * (1 + rounding));
    EXPECT_GT(bound.chain(), 0);
    min_any = std::min(min_any, least);
  }
  EXPECT_LE(chain_any, min_any * (1 + rounding));
}

TEST(Bounds, AreNeverAboveTheSimulatedStepOfAnySplit) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    expect_bounds_hold(make_case(seed, false));
    if (HasFailure()) return;
  }
}

TEST(Bounds, HoldWhereNothingOrNoGradientCrossesSomeCuts) {
  for (uint64_t seed = 10'000; seed < 11'500; ++seed) {
    SCOPED_TRACE(seed);
    expect_bounds_hold(make_case(seed, true));
    if (HasFailure()) return;
  }
}

TEST(Bounds, HoldForAnyOrderOfMicrobatches) {
  // Microbatch 0 differs from the others, and here it comes last.
  for (uint64_t seed = 50'000; seed < 50'300; ++seed) {
    SCOPED_TRACE(seed);
    Case c = make_case(seed, false);
    for (double& more_s : c.chain.costs.first_forward_s) more_s += 1e-3;
    for (const char* schedule : {"gpipe", "1f1b"}) {
      Program program = compute_program(schedule, c.ranks, c.microbatches);
      for (std::vector<Action>& rank : program.ranks)
        for (Action& action : rank) action.microbatch = c.microbatches - 1 - action.microbatch;
      EXPECT_TRUE(c.microbatches == 1 || in_flight(program).empty());
      for (const std::vector<int>& begins : all_splits(c.chain.costs.units(), c.ranks)) {
        const double step_s = simulate_program(c.chain, begins, program).makespan_s;
        EXPECT_LE(split_lower_bound_s(c.chain.costs, begins, c.microbatches),
                  step_s * (1 + rounding));
      }
    }
    if (HasFailure()) return;
  }
}

TEST(Bounds, ChainBoundIsTheLeastOfTheSplitBounds) {
  for (uint64_t seed = 20'000; seed < 20'500; ++seed) {
    SCOPED_TRACE(seed);
    Case c = make_case(seed, false);
    c.chain.costs.optimizer_s.clear();  // with it the chain bound takes the two maxima apart
    double least = std::numeric_limits<double>::infinity();
    for (int used = 1; used <= c.ranks; ++used)
      for (const std::vector<int>& begins : all_splits(c.chain.costs.units(), used))
        least = std::min(least, split_lower_bound_s(c.chain.costs, begins, c.microbatches));
    EXPECT_NEAR(chain_lower_bound_s(c.chain.costs, c.ranks, c.microbatches), least,
                rounding * least);
  }
}

TEST(Bounds, MoreRanksNeverRaiseTheChainBound) {
  for (uint64_t seed = 30'000; seed < 30'200; ++seed) {
    const Case c = make_case(seed, seed % 2 == 0);
    double before = std::numeric_limits<double>::infinity();
    for (int ranks = 1; ranks <= c.chain.costs.units() + 1; ++ranks) {
      const double bound = chain_lower_bound_s(c.chain.costs, ranks, c.microbatches);
      EXPECT_LE(bound, before);
      before = bound;
    }
  }
}

TEST(Bounds, AreExactForEqualStagesAndFreeTransfers) {
  // The published makespan of both schedules: (M + P - 1)(F + B).
  ChainCosts costs;
  costs.forward_s.assign(4, 1e-3);
  costs.backward_s.assign(4, 2e-3);
  costs.cut_forward_s.assign(3, 0);
  costs.cut_backward_s.assign(3, 0);
  for (int microbatches : {4, 8, 32}) {
    const double formula = (microbatches + 3) * 3e-3;
    EXPECT_NEAR(split_lower_bound_s(costs, {0, 1, 2, 3}, microbatches), formula, rounding);
    EXPECT_NEAR(chain_lower_bound_s(costs, 4, microbatches), formula, rounding);
  }
}

TEST(Bounds, KnowingTheScheduleIsNeverWeaker) {
  for (uint64_t seed = 40'000; seed < 40'500; ++seed) {
    const Case c = make_case(seed, false);
    const ChainBound any(c.chain.costs, c.ranks, c.microbatches);
    for (const char* schedule : {"gpipe", "1f1b"}) {
      const ChainBound known = bound_of(c.chain, schedule, c.ranks, c.microbatches);
      EXPECT_GE(known.chain() * (1 + rounding), any.chain());
    }
  }
}

TEST(InFlight, IsReadFromTheProgram) {
  EXPECT_EQ(in_flight(compute_program("gpipe", 3, 5)), (std::vector<int>{5, 5, 5}));
  EXPECT_EQ(in_flight(compute_program("1f1b", 3, 5)), (std::vector<int>{3, 2, 1}));
  EXPECT_EQ(in_flight(compute_program("1f1b", 3, 2)), (std::vector<int>{2, 2, 1}));
}

TEST(InFlight, IsEmptyForAnyOtherOrder) {
  Program program = compute_program("1f1b", 2, 4);
  std::swap(program.ranks[0][0], program.ranks[0][1]);  // microbatch 1 first
  EXPECT_TRUE(in_flight(program).empty());
}

}  // namespace
}  // namespace penstock::test
