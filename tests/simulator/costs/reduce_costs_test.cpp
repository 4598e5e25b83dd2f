// Sums of gradients as a plan's costs: the buckets of two layers, by hand.
#include "simulator/costs/reduce_costs.hpp"

#include <gtest/gtest.h>

#include "tests/simulator/two_layers.hpp"

namespace penstock::two_layers {
namespace {

/// Both operators on one rank, which has a replica; each parameter fills a bucket.
Plan replicas(int64_t bucket_bytes = 1) {
  Plan of = plan();
  of.stages = {{.rank = 0}};
  of.data_parallel = 2;
  of.all_reduce.bucket_bytes = bucket_bytes;
  return of;
}

/// Operator 0 reads w0, of 96 bytes, operator 1 w1, of 48.
Graph reading_model() {
  Graph graph = model();
  graph.operators[0].arguments = {{"input", TensorRef{0}}, {"weight", TensorRef{1}}};
  graph.operators[1].arguments = {{"input", TensorRef{3}}, {"weight", TensorRef{2}}};
  return graph;
}

Slicing one_stage() {
  Slicing slicing;
  slicing.stage_of_operator = {0, 0};
  slicing.stages = {{.operators = {0, 1}, .user_inputs = {0}, .tensors = {0, 1}, .outputs = {0}}};
  return slicing;
}

StageCosts costs_of(const Plan& of, const Profile& by = profile(),
                    const Cluster* cluster = nullptr) {
  return plan_costs(of, reading_model(), one_stage(), by, cluster).stages.front();
}

constexpr double round_s = 2 * 1e-4;

// The backward of operator 0 takes 32 s, its W 16 s: that much is left when w1 is final.
TEST(ReduceCosts, ABucketIsFullWhenTheBackwardComesToItsFirstOperator) {
  const StageCosts costs = costs_of(replicas());
  EXPECT_EQ(costs.reduce_s, 0);
  ASSERT_EQ(costs.sums.size(), 2U);
  EXPECT_DOUBLE_EQ(costs.sums[0].sum_s, round_s + 48 / 1e9);
  EXPECT_EQ(costs.sums[0].left_of_backward_s, 32);
  EXPECT_EQ(costs.sums[0].left_of_weight_s, 16);
  EXPECT_DOUBLE_EQ(costs.sums[1].sum_s, round_s + 96 / 1e9);
  EXPECT_EQ(costs.sums[1].left_of_backward_s, 0);
  EXPECT_EQ(costs.sums[1].compute_s, 0);
}

TEST(ReduceCosts, OneBucketOfBothIsFullAtTheEnd) {
  const StageCosts costs = costs_of(replicas(25'000'000));
  ASSERT_EQ(costs.sums.size(), 1U);
  EXPECT_DOUBLE_EQ(costs.sums[0].sum_s, round_s + 144 / 1e9);
  EXPECT_EQ(costs.sums[0].left_of_backward_s, 0);
}

TEST(ReduceCosts, WithoutOverlapTheSameBucketsFollowAllBackwards) {
  Plan behind = replicas();
  behind.all_reduce.overlap = false;
  EXPECT_TRUE(costs_of(behind).sums.empty());
  EXPECT_DOUBLE_EQ(costs_of(behind).reduce_s, 2 * round_s + 144 / 1e9);
}

// A segment that runs its forward again is left with its backward.
TEST(ReduceCosts, WhatASegmentRecomputesIsLeftToo) {
  Slicing recomputing = one_stage();
  recomputing.stages[0].recomputed = {{0, 1}};
  const Costs costs = plan_costs(replicas(), reading_model(), recomputing, profile());
  EXPECT_EQ(costs.stages[0].sums[0].left_of_backward_s, 32 + 16);
  EXPECT_EQ(costs.stages[0].sums[0].left_of_weight_s, 16);
}

TEST(ReduceCosts, WhatALayerChoosesToRecomputeIsLeftToo) {
  Profile choosing = profile();
  for (MicrobatchCosts& size : choosing.microbatches)
    size.operators[0].recompute = {{.name = "half", .time_s = 4}, {.name = "full", .time_s = 9}};
  Slicing slicing = one_stage();
  slicing.stages[0].choices = {{0, "full"}};
  const Costs costs = plan_costs(replicas(), reading_model(), slicing, choosing);
  EXPECT_EQ(costs.stages[0].sums[0].left_of_backward_s, 32 + 9);
  EXPECT_EQ(costs.stages[0].sums[0].left_of_weight_s, 16);
}

// A sum over two ranks is two rounds, in which each sends all bytes once.
TEST(ReduceCosts, AMeasuredSumTellsItsTimeAndItsCompute) {
  Profile measured = profile();
  measured.links.push_back({.kind = "gloo-sum",
                            .latency_s = 0.5,
                            .bandwidth = 8,
                            .sender_s_per_byte = 0.25,
                            .receiver_s_per_byte = 0.25});
  const StageCosts two = costs_of(replicas(), measured);
  EXPECT_EQ(two.sums[0].sum_s, 0.5 + 48 / 8.0);
  EXPECT_EQ(two.sums[0].compute_s, 0.25 * 48);
  Plan four = replicas();
  four.data_parallel = 4;
  // Three times the rounds, each of a quarter of the bytes.
  EXPECT_EQ(costs_of(four, measured).sums[0].sum_s, 3 * 0.5 + 1.5 * 48 / 8.0);
  EXPECT_EQ(costs_of(four, measured).sums[0].compute_s, 0.25 * 1.5 * 48);
  const Link link = reduce_link(measured, nullptr);
  EXPECT_EQ(link.latency_s, 1e-4);
  EXPECT_EQ(link.bandwidth, 1e9);
}

TEST(ReduceCosts, AFasterDeviceHasLessOfItsBackwardLeft) {
  Cluster cluster{.ranks = 2};
  cluster.nodes = {{.devices = 2, .speed = 4}};
  const StageCosts costs = costs_of(replicas(), profile(), &cluster);
  EXPECT_EQ(costs.sums[0].left_of_backward_s, 32 / 4);
  EXPECT_EQ(costs.sums[0].left_of_weight_s, 16 / 4);
}

// w1 has 12 numbers and w0, behind its padding, 24. The bucket is padded to 64, of which the first
// rank steps 12 + 16 and the second 8.
TEST(ReduceCosts, ShardedStateTakesAReduceScatterAndAnAllGatherInPlaceOfTheSum) {
  Profile local = profile();
  local.links.front().kind = "local";
  Plan sharded = replicas(25'000'000);
  sharded.all_reduce.overlap = false;
  const double all_s = costs_of(sharded, local).reduce_s;
  sharded.optimizer_state = OptimizerState::sharded;
  const StageCosts costs = costs_of(sharded, local);
  EXPECT_DOUBLE_EQ(costs.reduce_s, all_s / 2);
  EXPECT_DOUBLE_EQ(costs.publish_s, (round_s + 4 * 64 / 1e9) / 2);
}

TEST(ReduceCosts, OverGlooItsReduceScatterIsTheSum) {
  const StageCosts all = costs_of(replicas(25'000'000));
  Plan sharded = replicas(25'000'000);
  sharded.optimizer_state = OptimizerState::sharded;
  const StageCosts costs = costs_of(sharded);
  ASSERT_EQ(costs.sums.size(), 1U);
  EXPECT_DOUBLE_EQ(costs.sums[0].sum_s, all.sums[0].sum_s);
  EXPECT_DOUBLE_EQ(costs.publish_s, (round_s + 4 * 64 / 1e9) / 2);
  EXPECT_EQ(all.publish_s, 0);
}

// Ranks of one node are of one machine; those of several sum over Gloo, unless they are GPUs.
TEST(ReduceCosts, NodesTellWhetherThereIsAReduceScatter) {
  Profile of = profile();
  Cluster one{.ranks = 2}, two{.ranks = 2};
  one.nodes = {{.devices = 2}};
  two.nodes = {{.count = 2}};
  EXPECT_TRUE(has_reduce_scatter(of, &one, true));
  EXPECT_FALSE(has_reduce_scatter(of, &two, false));
  Plan sharded = replicas(25'000'000);
  sharded.optimizer_state = OptimizerState::sharded;
  for (Cluster* cluster : {&one, &two})
    for (NodeKind& node : cluster->nodes) node.bandwidth = node.card_bandwidth = 1e9;
  const double near_s = costs_of(sharded, of, &one).sums[0].sum_s;
  const double far_s = costs_of(sharded, of, &two).sums[0].sum_s;
  EXPECT_DOUBLE_EQ(far_s, 2 * near_s);
  of.device.kind = "cuda";
  EXPECT_DOUBLE_EQ(costs_of(sharded, of, &two).sums[0].sum_s, near_s);
}

TEST(ReduceCosts, OfShardedStateTheFullestReplicaCounts) {
  const StageCosts all = costs_of(replicas(25'000'000));
  Plan sharded = replicas(25'000'000);
  sharded.optimizer_state = OptimizerState::sharded;
  const StageCosts costs = costs_of(sharded);
  EXPECT_EQ(all.optimizer_s, 2 * 2 + 0.125 * 144 + 0.25 * 144);
  EXPECT_EQ(costs.optimizer_s, 2 * 2 + 0.125 * 4 * 28 + 0.25 * 144);
  const int64_t moments = 2 * 144, padding = 16 + 32;
  EXPECT_EQ(all.fixed_bytes, 144 + 144 + padding + moments);
  EXPECT_EQ(costs.fixed_bytes, 4 * 64 + 4 * 64 + 2 * 4 * 28) << "two buckets, and its moments";
  EXPECT_EQ(all.transient_optimizer_bytes, 2 * 96);
  EXPECT_EQ(costs.transient_optimizer_bytes, 2 * 4 * 16);
}

// The copy into the bucket takes the place of the addition that microbatch 0 is spared otherwise.
TEST(ReduceCosts, MicrobatchZeroCopiesGradientsIntoTheirBuckets) {
  Plan alone = replicas();
  alone.data_parallel = 1;
  EXPECT_EQ(costs_of(replicas()).first_backward_s - costs_of(alone).first_backward_s, 0.0625 * 144);
}

}  // namespace
}  // namespace penstock::two_layers
