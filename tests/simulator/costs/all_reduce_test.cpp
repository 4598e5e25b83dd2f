// All-reduces: the formulas, and how buckets run beside what is left of the backward.
#include "simulator/costs/all_reduce.hpp"

#include <gmock/gmock.h>

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

TEST(AllReduce, BucketsCoverAllBytes) {
  const Link link{.bandwidth = 10};
  const AllReduce how{.bucket_bytes = 30};
  const BucketedAllReduce buckets = bucketed_all_reduce(how, link, 80, 2);
  EXPECT_EQ(buckets.buckets, 3);
  EXPECT_EQ(buckets.bucket_s, all_reduce_s(Algorithm::ring, link, 30, 2));
  EXPECT_EQ(bucketed_all_reduce({}, link, 80, 2).buckets, 1);
  EXPECT_EQ(bucketed_all_reduce({.bucket_bytes = 1000}, link, 80, 2).bucket_s,
            all_reduce_s(Algorithm::ring, link, 80, 2));
}

/// One rank, two stages: the reduction of stage 1 runs beside the backward of stage 0.
Simulation two_stages(int buckets, double reduce_s) {
  const Program program = rows("0F0 1F0 1B0 1REDUCE_GRAD 0B0 0REDUCE_GRAD 0OPT 1OPT");
  StageCosts stage{.forward_s = 1, .backward_s = 4, .optimizer_s = 1, .reduce_s = reduce_s};
  stage.reduce_buckets = buckets;
  Costs costs;
  costs.stages = {stage, stage};
  costs.flows = {{0, 1, 0, 0}};
  return simulate(program, costs, {});
}

TEST(AllReduce, WithoutOverlapItIsAddedToTheStep) {
  EXPECT_EQ(two_stages(0, 2).makespan_s, 2 + 4 + 2 + 4 + 2 + 2);
}

TEST(AllReduce, BesideComputeOnlyTheLastOneShows) {
  // Stage 1 reduces from 6 to 8, while B of stage 0 runs until 10; that one reduces until 12.
  EXPECT_EQ(two_stages(1, 2).makespan_s, 12 + 2);
}

TEST(AllReduce, BucketsBeginWhileTheBackwardRuns) {
  // Four buckets of 0.5 s, full at 7, 8, 9 and 10: the last one ends at 10.5.
  const Simulation run = two_stages(4, 2);
  EXPECT_EQ(run.makespan_s, 10.5 + 2);
  for (const TimelineEvent& event : run.timeline) {
    if (event.action.kind == Kind::reduce_grad && event.action.stage == 0) {
      EXPECT_EQ(event.start_s, 7);
      EXPECT_EQ(event.end_s, 10.5);
    }
  }
}

TEST(AllReduce, OneThatIsSlowerThanTheBackwardQueues) {
  // Stage 1: buckets full at 3, 4, 5, 6, each 2 s: until 11. Stage 0: full from 7 on, waits: until
  // 19.
  EXPECT_EQ(two_stages(4, 8).makespan_s, 19 + 2);
}

}  // namespace
}  // namespace penstock
