// Where idle time comes from: one cause at a time, and all of them adding up.
#include "simulator/explain/idle.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.hpp"
#include "simulator/explain/explain.hpp"
#include "tests/simulator/random_program.hpp"

namespace penstock {
namespace {

void expect_parts(const IdleParts& parts, const IdleParts& expected) {
  EXPECT_EQ(parts.ramp_s, expected.ramp_s);
  EXPECT_EQ(parts.imbalance_s, expected.imbalance_s);
  EXPECT_EQ(parts.transfers_s, expected.transfers_s);
  EXPECT_EQ(parts.launch_s, expected.launch_s);
  EXPECT_EQ(parts.recompute_s, expected.recompute_s);
  EXPECT_EQ(parts.all_reduce_s, expected.all_reduce_s);
}

// Equal stages, free transfers: (P - 1)(F + B) on every rank, and nothing else.
TEST(Idle, EqualStagesLeaveTheRamp) {
  for (const IdleParts& rank :
       idle_parts(testing::lowered(one_f_one_b, 4, 8), testing::chain_costs(4, 1, 2), {})) {
    expect_parts(rank, {.ramp_s = 9});
  }
}

// GPipe of two stages with transfers of half a second: 10 s instead of 9 s (golden_test.cpp).
TEST(Idle, TransfersAreWhatFreeOnesWouldSave) {
  const auto ranks = idle_parts(testing::lowered(gpipe, 2, 2), testing::chain_costs(2, 1, 2, 1),
                                Link{.latency_s = 0.5});
  expect_parts(ranks[0], {.ramp_s = 3, .transfers_s = 1});
  expect_parts(ranks[1], {.ramp_s = 3, .transfers_s = 1});
}

//  F = 2, B = 4 on rank 0; F = 1, B = 2 on rank 1; one microbatch: both wait for the other alone.
//  With 1.5 and 3 on both each rank works 4.5 s of 9 s.
TEST(Idle, ImbalanceIsWhatEqualStagesWouldSave) {
  Costs costs = testing::chain_costs(2, 1, 2);
  costs.stages[0].forward_s = 2;
  costs.stages[0].backward_s = 4;
  const auto ranks = idle_parts(testing::lowered(gpipe, 2, 1), costs, {});
  expect_parts(ranks[0], {.ramp_s = 4.5, .imbalance_s = -1.5});  // busy for 6 s of 9 s
  expect_parts(ranks[1], {.ramp_s = 4.5, .imbalance_s = 1.5});
}

TEST(Idle, TheSumOverRanksHasNoPartBelowZeroAndTheSameTotal) {
  expect_parts(sum({{.ramp_s = 1, .imbalance_s = -1.5}, {.ramp_s = 2, .imbalance_s = 0.5}}),
               {.ramp_s = 2});
  // The ramp does not make up for it: the largest of the others does.
  expect_parts(sum({{.ramp_s = 1, .imbalance_s = -2, .transfers_s = 3, .launch_s = 1}}),
               {.transfers_s = 2, .launch_s = 1});
}

// The backward of rank 0 is 1 s longer because it runs F again; rank 1 waits for that second.
TEST(Idle, RecomputeIsWhatItMakesOthersWait) {
  Costs costs = testing::chain_costs(2, 1, 2);
  costs.stages[0].backward_s = 3;
  costs.stages[0].recompute_s = 1;
  const auto ranks = idle_parts(testing::lowered(gpipe, 2, 1), costs, {});
  expect_parts(ranks[0], {.ramp_s = 3});
  expect_parts(ranks[1], {.ramp_s = 3, .recompute_s = 1});
}

TEST(Idle, AllReduceIsWhatRanksSpendInItAndWaitForIt) {
  Costs costs = testing::chain_costs(2, 1, 2);
  costs.stages[1].reduce_s = 5;
  const auto ranks =
      idle_parts(testing::rows("0F0 0B0 0REDUCE_GRAD 0OPT\n1F0 1B0 1REDUCE_GRAD 1OPT"), costs, {});
  expect_parts(ranks[0], {.all_reduce_s = 5});
  expect_parts(ranks[1], {.all_reduce_s = 5});
}

// Times are below 2^10 s in fewer than 2^5 roundings each of at most half a unit in the last place.
TEST(Idle, PartsOfRandomProgramsAddUpToTheBubble) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const testing::Case tested = testing::make_case(seed);
    SCOPED_TRACE(testing::describe(tested, seed));
    const Simulation simulation = simulate(tested.program, tested.costs, tested.link);
    const auto ranks = idle_parts(tested.program, tested.costs, tested.link);
    const double tolerance_s = 1024 * 32 * std::numeric_limits<double>::epsilon();
    for (size_t r = 0; r < ranks.size(); ++r) {
      EXPECT_NEAR(ranks[r].total_s(), simulation.makespan_s - simulation.busy_s[r], tolerance_s);
      EXPECT_GE(ranks[r].ramp_s, 0);
    }
    const double capacity_s = simulation.makespan_s * static_cast<double>(ranks.size());
    const IdleParts all = sum(ranks);
    EXPECT_NEAR(all.total_s(), simulation.bubble * capacity_s, 4 * tolerance_s);
    for (const double part_s : {all.ramp_s, all.imbalance_s, all.transfers_s, all.launch_s,
                                all.recompute_s, all.all_reduce_s}) {
      EXPECT_GE(part_s, 0);
    }
    if (HasFailure()) return;
  }
}

TEST(Explain, TheLimitingRankComputesLongestOnThePath) {
  Costs costs = testing::chain_costs(3, 1, 2);
  costs.stages[1].forward_s = 4;
  const Explanation result = explain(testing::lowered(one_f_one_b, 3, 8), costs, {});
  EXPECT_EQ(result.limiting_rank, 1);
  // All of rank 1's work but B6: that runs beside F7 and B7 of rank 2, which take a second longer.
  EXPECT_EQ(result.path.rank_s, (std::vector<double>{1 + 2, 8 * (4 + 2) - 2, 1 + 2}));
}

TEST(Explain, AProgramThatCannotFinishIsRefused) {
  EXPECT_THROW(explain(testing::rows("0F0 0RECV_B0 0B0 0SEND_F0\n1RECV_F0 1F0 1B0 1SEND_B0"),
                       testing::chain_costs(2, 1, 2), {}),
               InputError);
}

}  // namespace
}  // namespace penstock
