// All-reduces: the formulas, and how buckets run beside what is left of the backward.
#include "simulator/costs/collectives.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/simulator/helpers.hpp"

namespace penstock {
namespace {

using Algorithm = AllReduce::Algorithm;
using testing::rows;

TEST(AllReduce, RingMovesEachPartTwiceAround) {
  const Link link{.latency_s = 1, .bandwidth = 10};
  // 4 ranks: 6 rounds of 1 s and a quarter of 80 bytes.
  EXPECT_EQ(all_reduce_s(Algorithm::ring, link, 80, 4), 6 * (1 + 2.0));
  EXPECT_EQ(all_reduce_s(Algorithm::ring, link, 80, 1), 0);
  EXPECT_EQ(all_reduce_s(Algorithm::ring, link, 0, 4), 0);
}

TEST(AllReduce, TreeMovesAllUpAndDown) {
  const Link link{.latency_s = 1, .bandwidth = 10};
  EXPECT_EQ(all_reduce_s(Algorithm::tree, link, 80, 4), 2 * 2 * (1 + 8.0));
  EXPECT_EQ(all_reduce_s(Algorithm::tree, link, 80, 5), 2 * 3 * (1 + 8.0));
}

TEST(AllReduce, TheFastestIsTheTreeForSmallSumsOverManyRanks) {
  const Link link{.latency_s = 1, .bandwidth = 1000};
  for (const int64_t bytes : {1, 1'000'000}) {
    const double ring_s = all_reduce_s(Algorithm::ring, link, bytes, 64);
    const double tree_s = all_reduce_s(Algorithm::tree, link, bytes, 64);
    EXPECT_EQ(tree_s < ring_s, bytes == 1);
    EXPECT_EQ(all_reduce_s(Algorithm::fastest, link, bytes, 64), std::min(ring_s, tree_s));
  }
}

/// One rank, two stages: the sums of stage 1 run beside the backward of stage 0.
Simulation two_stages(const std::vector<SumCosts>& sums, double reduce_s = 0) {
  const Program program = rows("0F0 1F0 1B0 1REDUCE_GRAD 0B0 0REDUCE_GRAD 0OPT 1OPT");
  StageCosts stage{.forward_s = 1, .backward_s = 4, .optimizer_s = 1, .reduce_s = reduce_s};
  stage.sums = sums;
  Costs costs;
  costs.stages = {stage, stage};
  costs.flows = {{0, 1, 0, 0}};
  return simulate(program, costs, {});
}

/// Four of `sum_s`, full when three, two, one and no quarter of the backward are left.
std::vector<SumCosts> four_sums(double sum_s, double compute_s = 0) {
  std::vector<SumCosts> sums;
  for (const double left_s : {3, 2, 1, 0}) {
    sums.push_back({.sum_s = sum_s, .compute_s = compute_s, .left_of_backward_s = left_s});
  }
  return sums;
}

const TimelineEvent& reduction(const Simulation& run, int stage) {
  return *std::ranges::find_if(run.timeline, [&](const TimelineEvent& event) {
    return event.action == Action{stage, Kind::reduce_grad};
  });
}

TEST(AllReduce, WithoutOverlapAllSumsFollowTheLastBackward) {
  const Simulation run = two_stages({}, 2);
  EXPECT_EQ(run.makespan_s, 2 + 4 + 4 + 2 + 2 + 2);
  EXPECT_EQ(reduction(run, 1).end_s, reduction(run, 1).start_s);
  EXPECT_EQ(reduction(run, 0).start_s, 10);
  EXPECT_EQ(reduction(run, 0).end_s, 14);
}

TEST(AllReduce, BesideComputeOnlyTheLastOneShows) {
  // Stage 1 sums from 6 to 8, while B of stage 0 runs until 10; that one sums until 12.
  EXPECT_EQ(two_stages({{.sum_s = 2}}).makespan_s, 12 + 2);
}

TEST(AllReduce, BucketsBeginWhileTheBackwardRuns) {
  // Four buckets of 0.5 s, full at 7, 8, 9 and 10: the last one ends at 10.5.
  const Simulation run = two_stages(four_sums(0.5));
  EXPECT_EQ(run.makespan_s, 10.5 + 2);
  EXPECT_EQ(reduction(run, 0).start_s, 7);
  EXPECT_EQ(reduction(run, 0).end_s, 10.5);
}

TEST(AllReduce, OneThatIsSlowerThanTheBackwardQueues) {
  // Stage 1: buckets full at 3, 4, 5, 6, each 2 s: until 11. Stage 0: full from 7 on, waits: until
  // 19.
  EXPECT_EQ(two_stages(four_sums(2)).makespan_s, 19 + 2);
}

TEST(AllReduce, WhatRanksShareFollowsTheBucketsOfItsOwn) {
  // As BucketsBeginWhileTheBackwardRuns, and 2 + 2 s that begin at 10.5.
  EXPECT_EQ(two_stages(four_sums(0.5), 2).makespan_s, 14.5 + 2);
}

TEST(AllReduce, TakesComputeOfWhatRunsBesideIt) {
  // 0.25 s each, of stage 1: three in its backward, from 2 to 6.75, the fourth in B of stage 0,
  // which takes three of its own, until 11.75. Its last sum ends 0.5 s later.
  const Simulation run = two_stages(four_sums(0.5, 0.25));
  EXPECT_EQ(reduction(run, 1).start_s, 3);
  EXPECT_EQ(reduction(run, 0).start_s, 8);
  EXPECT_EQ(run.makespan_s, 11.75 + 0.5 + 2);
  EXPECT_EQ(run.busy_s.front(), 2 + 8 + 2 + 7 * 0.25);
}

TEST(AllReduce, ASumTakesNoMoreOfABackwardThanIsLeftOfIt) {
  // Full with 1 s left: 1 of its 3 s of compute fall into the backward, the rest into the next one.
  const Simulation run = two_stages({{.sum_s = 3, .compute_s = 3, .left_of_backward_s = 1}});
  EXPECT_EQ(reduction(run, 1).start_s, 5);
  EXPECT_EQ(run.busy_s.front(), 2 + 8 + 2 + 3 + 1);
}

}  // namespace
}  // namespace penstock
