// Costs of a plan's stages from a profile, by hand.
#include "simulator/costs/plan_costs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "graph/cuts/segments.hpp"
#include "tests/simulator/two_layers.hpp"

namespace penstock::two_layers {
namespace {

using ::testing::HasSubstr;

// Two readings of a microbatch, one input and one target: half a second of loading for each stage.
TEST(PlanCosts, TimesAreTheOperatorsTheOverheadTheLoadingAndTheLoss) {
  const Costs result = costs();
  EXPECT_EQ(result.stages[0].forward_s, 16 + 2 + 0.5);
  EXPECT_EQ(result.stages[1].forward_s, 32 + 2 + 0.5 + 4);
  EXPECT_EQ(result.stages[0].backward_s, 32 + 2);
  EXPECT_EQ(result.stages[1].backward_input_s, 40 + 2);
  EXPECT_EQ(result.stages[1].backward_weight_s, 32 + 2);
}

// w0 has 96 bytes, w1 48. Half more for the first microbatch, less the accumulation.
TEST(PlanCosts, TheFirstMicrobatchTakesLongerButStoresItsGradients) {
  const Costs result = costs();
  EXPECT_EQ(result.stages[0].first_forward_s, 0.5 * 18.5);
  EXPECT_EQ(result.stages[0].first_backward_s, 0.5 * 34 - 0.0625 * 96);
  EXPECT_EQ(result.stages[1].first_backward_s, 0.5 * 66 - 0.0625 * 48);
}

TEST(PlanCosts, TheOptimizerAlsoClearsTheGradients) {
  EXPECT_EQ(costs().stages[0].optimizer_s, 2 + 0.375 * 96);
  EXPECT_EQ(costs().stages[0].reduce_s, 0);
}

TEST(PlanCosts, FixedMemoryIsTheParameterItsGradientAndTwoMomentsOfAdam) {
  EXPECT_EQ(costs().stages[0].fixed_bytes, 4 * 96);
  EXPECT_EQ(costs().stages[1].fixed_bytes, 4 * 48);
}

// x is 8 x 4 floats, 128 bytes; y is 8 x 6, 192 bytes; the target is 8 numbers, 64 bytes.
TEST(PlanCosts, WhatForwardKeepsIncludesWhatItWasGivenAndNeeds) {
  const Costs result = costs();
  EXPECT_EQ(result.stages[0].saved_bytes, 1000 + 128);  // not y, which the second operator keeps
  EXPECT_EQ(result.stages[1].saved_bytes, 2000 + 192 + 64);
  EXPECT_EQ(result.stages[1].saved_weight_bytes, 2000 + 192 + 100 - 192);
  EXPECT_EQ(result.stages[0].transient_forward_bytes, 10 + 192);
  EXPECT_EQ(result.stages[1].transient_forward_bytes, 30 + 64);
  EXPECT_EQ(result.stages[0].transient_backward_bytes, 192 + 20);  // the gradient that came
  EXPECT_EQ(result.stages[1].transient_backward_bytes, 240);
  EXPECT_EQ(result.stages[1].transient_input_bytes, 340);
  EXPECT_EQ(result.stages[1].transient_weight_bytes, 35);
}

TEST(PlanCosts, AdamTakesTwiceTheLargestTensorForAWhile) {
  EXPECT_EQ(costs().stages[0].transient_optimizer_bytes, 2 * 96);
  Profile gpu = profile();
  gpu.device.kind = "cuda";
  EXPECT_EQ(plan_costs(plan(), model(), stages(), gpu).stages[0].transient_optimizer_bytes, 0);
}

// The sender saves nothing of y, so that all of the message is its own.
TEST(PlanCosts, MessagesTakeMemoryAtBothEnds) {
  const Costs result = costs();
  ASSERT_EQ(result.flows.size(), 1u);
  EXPECT_EQ(result.flows[0].forward_bytes, 192);
  EXPECT_EQ(result.flows[0].backward_bytes, 192);
  EXPECT_EQ(result.flows[0].unsaved_bytes, 192);
  EXPECT_EQ(result.receive_depth, 2);
}

TEST(PlanCosts, AValueWithoutAGradientGoesOneWay) {
  Slicing slicing = stages();
  slicing.edges[0].values[0].carries_gradient = false;
  const Costs result = costs(plan(), slicing);
  EXPECT_EQ(result.flows[0].backward_bytes, 0);
  EXPECT_EQ(result.stages[0].transient_backward_bytes, 20);
}

TEST(PlanCosts, RecomputingKeepsOnlyTheInputAndRunsForwardAgain) {
  Slicing recomputing = stages();
  recomputing.stages[0].recomputed = whole_stage(recomputing, 0);
  const StageCosts result = costs(plan(), recomputing).stages[0];
  EXPECT_EQ(result.saved_bytes, 128);
  EXPECT_EQ(result.backward_s, 34 + 16);
  EXPECT_EQ(result.transient_backward_bytes, 192 + 1202);  // when it runs again, y included
  EXPECT_EQ(result.recompute_s, 16);  // the parts of these two that recomputing added
  EXPECT_EQ(result.recompute_bytes, 1000);
}

// A host that needs 1 s for each operator's F and 3, 5 and 7 s for its B, I and W, and half a
// second of its own for each action.
TEST(PlanCosts, AHostIssuesWhatItsStageRuns) {
  Profile measured = profile();
  measured.action_host_s = 0.5;
  for (OperatorCost& op : measured.microbatches[0].operators) {
    op.times.forward.host_s = 1;
    op.times.backward.host_s = 3;
    op.times.backward_input.host_s = 5;
    op.times.backward_weight.host_s = 7;
  }
  measured.microbatches[0].loss_forward.host_s = 2;
  Slicing recomputing = stages();
  recomputing.stages[1].recomputed = whole_stage(recomputing, 1);
  const Costs kept = plan_costs(plan(), model(), stages(), measured);
  const Costs again = plan_costs(plan(), model(), recomputing, measured);
  EXPECT_EQ(kept.host_s({0, Kind::forward, 0}), 1.5);
  EXPECT_EQ(kept.host_s({1, Kind::forward, 0}), 1.5 + 2);  // makes the loss
  EXPECT_EQ(kept.host_s({1, Kind::backward, 0}), 3.5);
  EXPECT_EQ(kept.host_s({1, Kind::backward_input, 0}), 5.5);
  EXPECT_EQ(kept.host_s({1, Kind::backward_weight, 0}), 7.5);
  EXPECT_EQ(kept.host_s({1, Kind::optimizer, 0}), 0);
  EXPECT_EQ(again.host_s({1, Kind::backward, 0}), 3.5 + 1 + 2);
  EXPECT_EQ(again.host_s({1, Kind::backward_input, 0}), 5.5 + 1 + 2);
  EXPECT_EQ(costs().host_s({1, Kind::backward, 0}), 0);  // a CPU
}

// Both stages also read w0, which they hold once where they are on one rank.
TEST(PlanCosts, ASharedParameterCountsOncePerRank) {
  Slicing slicing = stages();
  slicing.stages[1].tensors = {0, 1};
  slicing.shared = {{0, {0, 1}}};
  EXPECT_EQ(costs(plan(), slicing).stages[1].fixed_bytes, 4 * (96 + 48));
  // 2 (n - 1) latencies and 2 (n - 1) / n of its 96 bytes, for n = 2 ranks.
  EXPECT_DOUBLE_EQ(costs(plan(), slicing).stages[0].reduce_s, 2 * 1e-4 + 96 / 1e9);
  Plan one_rank = plan();
  one_rank.stages[1].rank = 0;
  const Costs together = costs(one_rank, slicing);
  EXPECT_EQ(together.stages[1].fixed_bytes, 4 * 48);
  EXPECT_EQ(together.stages[1].optimizer_s, 2 + 0.375 * 48);
  EXPECT_EQ(together.stages[0].reduce_s, 0);
}

std::string refusal(const Plan& of, const Profile& by) {
  try {
    plan_costs(of, model(), stages(), by);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(PlanCosts, AMicrobatchThatWasNotMeasuredIsRefusedNamingThoseThatWere) {
  Plan other = plan();
  other.microbatch = 3;
  EXPECT_THAT(refusal(other, profile()),
              HasSubstr("microbatch 3 was not measured\n  Measured: 8."));
}

TEST(PlanCosts, AProfileOfAnotherModelIsRefused) {
  Profile other = profile();
  other.model_sha256 = "def";
  EXPECT_THAT(refusal(plan(), other), HasSubstr("SHA-256 def, but two.pt2 has abc"));
}

TEST(PlanNetwork, AMeasuredLinkMovesDataOnceItsReceiveIsPosted) {
  const Link link = plan_network(profile(), nullptr).link();
  EXPECT_EQ(link.mode, SendMode::posted);
  EXPECT_EQ(link.latency_s, 1e-4);
  EXPECT_EQ(link.bandwidth, 1e9);
  EXPECT_EQ(link.receiver_s_per_byte, 2e-10);
}

TEST(PlanNetwork, AStepSeesTheLinkAsItIsBesideCompute) {
  Profile both = profile();
  both.links.push_back({.kind = "gloo-busy", .latency_s = 3e-4, .bandwidth = 5e8});
  EXPECT_EQ(plan_network(both, nullptr).link().latency_s, 3e-4);
  EXPECT_EQ(plan_network(both, nullptr).link().bandwidth, 5e8);
  both.links[1].bandwidth = 0;  // a fit without a slope
  EXPECT_EQ(plan_network(both, nullptr).link().bandwidth, 1e9);
}

TEST(PlanNetwork, AClusterReplacesTheMeasuredLink) {
  const Cluster cluster{.ranks = 2, .link = {.latency_s = 3}};
  EXPECT_EQ(plan_network(profile(), &cluster).link().latency_s, 3);
}

TEST(PlanNetwork, WithoutAnyLinkThereIsNothingToPredict) {
  Profile unmeasured = profile();
  unmeasured.links.clear();
  EXPECT_THROW(plan_network(unmeasured, nullptr), InputError);
}

}  // namespace
}  // namespace penstock::two_layers
