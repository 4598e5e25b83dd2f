// Costs of a plan's stages from a profile, by hand: two linear operators, one per stage.
//
//   x [batch, 4] ── op 0 (w0: 4 x 6) ── y [batch, 6] ── op 1 (w1: 6 x 2) ── z [batch, 2]
#include "simulator/plan_costs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/error.hpp"
#include "graph/segments.hpp"
#include "simulator/simulate.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;

Value value(const char* name, Value::Kind kind, std::vector<Expression> shape) {
  return {.name = name, .kind = kind, .shape = std::move(shape)};
}

StoredTensor parameter(const char* name, std::vector<int64_t> sizes) {
  return {.name = name, .requires_grad = true, .sizes = std::move(sizes)};
}

Graph two_layers() {
  Graph graph;
  graph.sha256 = "abc";
  graph.path = "two.pt2";
  graph.values = {value("x", Value::Kind::user_input, {Expression::batch(), 4}),
                  value("w0", Value::Kind::tensor, {4, 6}),
                  value("w1", Value::Kind::tensor, {6, 2}),
                  value("y", Value::Kind::intermediate, {Expression::batch(), 6}),
                  value("z", Value::Kind::intermediate, {Expression::batch(), 2})};
  graph.values[1].tensor = 0;
  graph.values[2].tensor = 1;
  graph.values[3].producer = 0;
  graph.values[4].producer = 1;
  graph.inputs = {0};
  graph.tensors = {parameter("w0", {4, 6}), parameter("w1", {6, 2})};
  graph.operators.resize(2);
  graph.operators[0] = {.name = "y", .target = "aten::linear", .outputs = {3}};
  graph.operators[1] = {.name = "z", .target = "aten::linear", .outputs = {4}};
  graph.outputs = {{"output", TensorRef{4}}};
  return graph;
}

Slicing two_stages() {
  Slicing slicing;
  slicing.stage_of_operator = {0, 1};
  slicing.stages.resize(2);
  slicing.stages[0] = {.operators = {0}, .user_inputs = {0}, .tensors = {0}};
  slicing.stages[1] = {.operators = {1}, .tensors = {1}, .outputs = {0}};
  slicing.edges = {{0, 1, {{3, true}}}};
  return slicing;
}

OperatorCost operator_cost(double forward_s, HeldBytes held) {
  OperatorCost cost;
  cost.times.forward.mean_s = forward_s;
  cost.times.backward.mean_s = 2 * forward_s;
  cost.times.backward_input.mean_s = 1.25 * forward_s;
  cost.times.backward_weight.mean_s = forward_s;
  cost.held = held;
  return cost;
}

Profile profile() {
  MicrobatchCosts size;
  size.microbatch = 8;
  size.operators = {operator_cost(16, {.after_forward = 1000,
                                       .after_input = 1100,
                                       .transient_forward = 10,
                                       .transient_backward = 20}),
                    operator_cost(32, {.after_forward = 2000,
                                       .after_input = 2100,
                                       .transient_forward = 30,
                                       .transient_backward = 40})};
  size.loss_forward.mean_s = 4;
  size.first_microbatch_excess = 0.5;
  size.load_batch_s = 1;
  Profile profile;
  profile.path = "profile.json";
  profile.model_sha256 = "abc";
  profile.microbatches = {size};
  profile.accumulate_s_per_byte = 0.0625;
  profile.optimizer_s_per_byte = 0.125;
  profile.zero_s_per_byte = 0.25;
  profile.action_overhead_s = 2;
  profile.links = {{.kind = "gloo",
                    .latency_s = 1e-4,
                    .bandwidth = 1e9,
                    .sender_s_per_byte = 1e-10,
                    .receiver_s_per_byte = 2e-10}};
  return profile;
}

Plan plan() {
  Plan plan;
  plan.path = "plan.yaml";
  plan.job.optimizer.kind = OptimizerSpec::Kind::adamw;
  plan.microbatch = 8;
  plan.microbatches = 2;
  plan.stages = {{.rank = 0}, {.rank = 1}};
  return plan;
}

Costs costs(const Plan& of = plan(), const Slicing& slicing = two_stages()) {
  return plan_costs(of, two_layers(), slicing, profile());
}

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
  EXPECT_EQ(costs().stages[0].optimizer_s, 0.375 * 96);
  EXPECT_EQ(costs().stages[0].reduce_s, 0);
}

TEST(PlanCosts, FixedMemoryIsTheParameterItsGradientAndTwoMomentsOfAdam) {
  EXPECT_EQ(costs().stages[0].fixed_bytes, 4 * 96);
  EXPECT_EQ(costs().stages[1].fixed_bytes, 4 * 48);
}

// x is 8 x 4 floats, 128 bytes; y is 8 x 6, 192 bytes.
TEST(PlanCosts, WhatForwardKeepsIncludesWhatItWasGiven) {
  const Costs result = costs();
  EXPECT_EQ(result.stages[0].saved_bytes, 1000 + 128);
  EXPECT_EQ(result.stages[1].saved_bytes, 2000 + 192);
  EXPECT_EQ(result.stages[1].saved_weight_bytes, 2100);
  EXPECT_EQ(result.stages[1].transient_forward_bytes, 30);
  EXPECT_EQ(result.stages[1].transient_backward_bytes, 40);
}

// Each rank: two receives posted ahead and one message on its way, 192 bytes each.
TEST(PlanCosts, ChannelsNeedBuffersAtBothEnds) {
  const Costs result = costs();
  ASSERT_EQ(result.flows.size(), 1u);
  EXPECT_EQ(result.flows[0].forward_bytes, 192);
  EXPECT_EQ(result.flows[0].backward_bytes, 192);
  EXPECT_EQ(result.receive_buffer_bytes, (std::vector<int64_t>{576, 576}));
}

TEST(PlanCosts, AValueWithoutAGradientGoesOneWay) {
  Slicing slicing = two_stages();
  slicing.edges[0].values[0].carries_gradient = false;
  const Costs result = costs(plan(), slicing);
  EXPECT_EQ(result.flows[0].backward_bytes, 0);
  EXPECT_EQ(result.receive_buffer_bytes, (std::vector<int64_t>{192, 384}));
}

TEST(PlanCosts, RecomputingKeepsOnlyTheInputAndRunsForwardAgain) {
  Slicing recomputing = two_stages();
  recomputing.stages[0].recomputed = whole_stage(recomputing, 0);
  const StageCosts result = costs(plan(), recomputing).stages[0];
  EXPECT_EQ(result.saved_bytes, 128);
  EXPECT_EQ(result.backward_s, 34 + 16);
  EXPECT_EQ(result.transient_backward_bytes, 20 + 1000);
  EXPECT_EQ(result.recompute_s, 16);  // the parts of these two that recomputing added
  EXPECT_EQ(result.recompute_bytes, 1000);
}

// Both stages also read w0, which they hold once where they are on one rank.
TEST(PlanCosts, ASharedParameterCountsOncePerRank) {
  Slicing slicing = two_stages();
  slicing.stages[1].tensors = {0, 1};
  slicing.shared = {{0, {0, 1}}};
  EXPECT_EQ(costs(plan(), slicing).stages[1].fixed_bytes, 4 * (96 + 48));
  // 2 (n - 1) latencies and 2 (n - 1) / n of its 96 bytes, for n = 2 ranks.
  EXPECT_DOUBLE_EQ(costs(plan(), slicing).stages[0].reduce_s, 2 * 1e-4 + 96 / 1e9);
  Plan one_rank = plan();
  one_rank.stages[1].rank = 0;
  const Costs together = costs(one_rank, slicing);
  EXPECT_EQ(together.stages[1].fixed_bytes, 4 * 48);
  EXPECT_EQ(together.stages[1].optimizer_s, 0.375 * 48);
  EXPECT_EQ(together.stages[0].reduce_s, 0);
  EXPECT_EQ(together.receive_buffer_bytes, std::vector<int64_t>{0});
}

/// Both stages read w0, of 96 bytes, which rank 0 owns and transmits.
Slicing transmitted_w0() {
  Slicing slicing = two_stages();
  slicing.stages[1].tensors = {0, 1};
  slicing.shared = {{0, {0, 1}, true}};
  return slicing;
}

constexpr double message_s = 1e-4 + 96 / 1e9;

// Rank 1 holds w0 and its gradient, 2 x 96 bytes, and no moments of it; it clears the gradient.
TEST(PlanCosts, ATransmittedParameterHasOptimizerStateAtItsOwnerAlone) {
  const Costs result = costs(plan(), transmitted_w0());
  EXPECT_EQ(result.stages[0].fixed_bytes, 4 * 96);
  EXPECT_EQ(result.stages[1].fixed_bytes, 4 * 48 + 2 * 96);
  EXPECT_EQ(result.stages[0].optimizer_s, 0.375 * 96);
  EXPECT_EQ(result.stages[1].optimizer_s, 0.375 * 48 + 0.25 * 96);
  EXPECT_EQ(result.stages[1].first_backward_s, 0.5 * 66 - 0.0625 * (48 + 96));
}

// The owner adds what it is sent, and has room for it meanwhile.
TEST(PlanCosts, ItsGradientGoesToTheOwnerAndItsValueComesBackOnceAStep) {
  const Costs result = costs(plan(), transmitted_w0());
  EXPECT_DOUBLE_EQ(result.stages[0].reduce_s, message_s + 0.0625 * 96);
  EXPECT_DOUBLE_EQ(result.stages[1].reduce_s, message_s);
  for (const StageCosts& stage : result.stages) EXPECT_DOUBLE_EQ(stage.publish_s, message_s);
  EXPECT_EQ(result.stages[0].transient_reduce_bytes, 96);
  EXPECT_EQ(result.stages[1].transient_reduce_bytes, 0);
}

// Of two other holders one comes after the other.
TEST(PlanCosts, AnOwnerServesItsHoldersOneAfterTheOther) {
  Slicing slicing = transmitted_w0();
  slicing.stages.push_back({.operators = {1}, .tensors = {0}});
  slicing.shared = {{0, {0, 1, 2}, true}};
  Plan three = plan();
  three.stages.push_back({.rank = 2});
  const Costs result = costs(three, slicing);
  EXPECT_DOUBLE_EQ(result.stages[0].reduce_s, 2 * (message_s + 0.0625 * 96));
  EXPECT_DOUBLE_EQ(result.stages[0].publish_s, 2 * message_s);
  EXPECT_DOUBLE_EQ(result.stages[2].reduce_s, message_s);
  EXPECT_EQ(result.stages[0].transient_reduce_bytes, 96);
}

// A ring of two replicas moves the gradients of w0 and w1 among owners: rank 1 owns w1 alone.
TEST(PlanCosts, ReplicasSumATransmittedParameterAtItsOwners) {
  Plan two = plan();
  two.data_parallel = 2;
  const Costs result = costs(two, transmitted_w0());
  EXPECT_DOUBLE_EQ(result.stages[0].reduce_s, message_s + 0.0625 * 96 + 2 * 1e-4 + 96 / 1e9);
  EXPECT_DOUBLE_EQ(result.stages[1].reduce_s, message_s + 2 * 1e-4 + 48 / 1e9);
}

// w0 of bfloat16 has 48 bytes; gradient, master and moments are of 96.
TEST(PlanCosts, InBf16TheGradientTravelsInFloat32AndTheValueAsItIs) {
  Plan mixed = plan();
  mixed.job.precision = Precision::bf16;
  Graph model = two_layers();
  for (StoredTensor& tensor : model.tensors) tensor.dtype = DType::bfloat16;
  const Costs result = plan_costs(mixed, model, transmitted_w0(), profile());
  EXPECT_EQ(result.stages[0].fixed_bytes, 48 + 4 * 96);
  EXPECT_EQ(result.stages[1].fixed_bytes, 24 + 4 * 48 + 48 + 96);
  EXPECT_DOUBLE_EQ(result.stages[1].reduce_s, message_s);
  EXPECT_DOUBLE_EQ(result.stages[1].publish_s, 1e-4 + 48 / 1e9);
}

// OPT begins on both ranks when both have reduced; the step ends with the owner's last message.
TEST(PlanCosts, AStepEndsWhenTheLastValueHasCome) {
  const Slicing slicing = transmitted_w0();
  const Costs result = costs(plan(), slicing);
  const Program program = lowered_program(plan(), slicing);
  const Simulation run = simulate(program, result, plan_network(profile(), nullptr));
  double agreed_s = 0, end_s = 0;
  for (const TimelineEvent& event : run.timeline) {
    if (event.action.kind == Kind::reduce_grad) agreed_s = std::max(agreed_s, event.end_s);
  }
  ASSERT_GT(agreed_s, 0);
  for (const TimelineEvent& event : run.timeline) {
    if (event.action.kind != Kind::optimizer) continue;
    EXPECT_EQ(event.start_s, agreed_s);
    const double opt_s = event.rank == 0 ? 0.375 * 96 : 0.375 * 48 + 0.25 * 96;
    EXPECT_NEAR(event.end_s - event.start_s, opt_s + message_s, 1e-12);  // roundings of 2e-14
    end_s = std::max(end_s, event.end_s);
  }
  EXPECT_EQ(run.makespan_s, end_s);
  // What is on its way is no compute.
  Costs silent = result;
  for (StageCosts& stage : silent.stages) stage.publish_s = 0;
  const Simulation without = simulate(program, silent, plan_network(profile(), nullptr));
  for (size_t rank = 0; rank < 2; ++rank)
    EXPECT_NEAR(run.busy_s[rank], without.busy_s[rank], 1e-12);
}

std::string refusal(const Plan& of, const Profile& by) {
  try {
    plan_costs(of, two_layers(), two_stages(), by);
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
}  // namespace penstock
