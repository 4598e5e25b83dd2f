// Costs of a parameter that one stage owns and transmits to another, by hand.
#include <gtest/gtest.h>

#include "simulator/engine/simulate.hpp"
#include "tests/simulator/two_layers.hpp"

namespace penstock::two_layers {
namespace {

/// Both stages read w0, of 96 bytes, which rank 0 owns and transmits.
Slicing transmitted_w0() {
  Slicing slicing = stages();
  slicing.stages[1].tensors = {0, 1};
  slicing.shared = {{0, {0, 1}, true}};
  return slicing;
}

constexpr double message_s = 1e-4 + 96 / 1e9;

// Rank 1 holds w0 and its gradient, 2 x 96 bytes, and no moments of it; it clears the gradient.
TEST(TransmissionCosts, ATransmittedParameterHasOptimizerStateAtItsOwnerAlone) {
  const Costs result = costs(plan(), transmitted_w0());
  EXPECT_EQ(result.stages[0].fixed_bytes, 4 * 96);
  EXPECT_EQ(result.stages[1].fixed_bytes, 4 * 48 + 2 * 96);
  EXPECT_EQ(result.stages[0].optimizer_s, 2 + 0.375 * 96);
  EXPECT_EQ(result.stages[1].optimizer_s, 2 + 0.375 * 48 + 0.25 * 96);
  EXPECT_EQ(result.stages[1].first_backward_s, 0.5 * 66 - 0.0625 * (48 + 96));
}

// The owner adds what it is sent, and has room for it meanwhile.
TEST(TransmissionCosts, ItsGradientGoesToTheOwnerAndItsValueComesBackOnceAStep) {
  const Costs result = costs(plan(), transmitted_w0());
  EXPECT_DOUBLE_EQ(result.stages[0].reduce_s, message_s + 0.0625 * 96);
  EXPECT_DOUBLE_EQ(result.stages[1].reduce_s, message_s);
  for (const StageCosts& stage : result.stages) EXPECT_DOUBLE_EQ(stage.publish_s, message_s);
  EXPECT_EQ(result.stages[0].transient_reduce_bytes, 96);
  EXPECT_EQ(result.stages[1].transient_reduce_bytes, 0);
}

// Two other holders come one after the other.
TEST(TransmissionCosts, AnOwnerServesItsHoldersOneAfterTheOther) {
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
TEST(TransmissionCosts, ReplicasSumATransmittedParameterAtItsOwners) {
  Plan two = plan();
  two.data_parallel = 2;
  const Costs result = costs(two, transmitted_w0());
  EXPECT_DOUBLE_EQ(result.stages[0].reduce_s, message_s + 0.0625 * 96 + 2 * 1e-4 + 96 / 1e9);
  EXPECT_DOUBLE_EQ(result.stages[1].reduce_s, message_s);
  ASSERT_EQ(result.stages[1].sums.size(), 1U);
  EXPECT_DOUBLE_EQ(result.stages[1].sums.front().sum_s, 2 * 1e-4 + 48 / 1e9);
}

// Each part of a group sends to its equal; owners of terms then sum these over their group, in a
// bucket whose last 64 bytes they fill by half.
TEST(TransmissionCosts, PartsOfTensorGroupsSumTheirTermsAtTheOwner) {
  Plan groups = plan();
  groups.tensor_parallel = 2;
  Graph graph = model();
  const Costs equal = plan_costs(groups, graph, transmitted_w0(), profile());
  EXPECT_DOUBLE_EQ(equal.stages[0].reduce_s, message_s + 0.0625 * 96);
  EXPECT_EQ(equal.stages[0].fixed_bytes, 4 * 96);
  graph.tensors[0].sums_over_parts = true;
  const Costs terms = plan_costs(groups, graph, transmitted_w0(), profile());
  EXPECT_DOUBLE_EQ(terms.stages[0].reduce_s, message_s + 0.0625 * 96 + 2 * 1e-4 + 96 / 1e9);
  EXPECT_EQ(terms.stages[0].fixed_bytes, 4 * 96 + 32);
  for (const Costs* costs : {&equal, &terms}) {
    EXPECT_DOUBLE_EQ(costs->stages[1].reduce_s, message_s);
    EXPECT_DOUBLE_EQ(costs->stages[1].publish_s, message_s);
    EXPECT_EQ(costs->stages[1].fixed_bytes, 4 * 48 + 2 * 96);
  }
}

// w0 of bfloat16 has 48 bytes; gradient, master and moments are of 96.
TEST(TransmissionCosts, InBf16TheGradientTravelsInFloat32AndTheValueAsItIs) {
  Plan mixed = plan();
  mixed.job.precision = Precision::bf16;
  Graph half = model();
  for (StoredTensor& tensor : half.tensors) tensor.dtype = DType::bfloat16;
  const Costs result = plan_costs(mixed, half, transmitted_w0(), profile());
  EXPECT_EQ(result.stages[0].fixed_bytes, 48 + 4 * 96);
  EXPECT_EQ(result.stages[1].fixed_bytes, 24 + 4 * 48 + 48 + 96);
  EXPECT_DOUBLE_EQ(result.stages[1].reduce_s, message_s);
  EXPECT_DOUBLE_EQ(result.stages[1].publish_s, 1e-4 + 48 / 1e9);
}

// OPT begins on both ranks when both have reduced; the step ends with the owner's last message.
TEST(TransmissionCosts, AStepEndsWhenTheLastValueHasCome) {
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
    const double opt_s = 2 + (event.rank == 0 ? 0.375 * 96 : 0.375 * 48 + 0.25 * 96);
    EXPECT_NEAR(event.end_s - event.start_s, opt_s + message_s, 1e-12);  // roundings of 2e-14
    end_s = std::max(end_s, event.end_s);
  }
  EXPECT_EQ(run.makespan_s, end_s);
  // A message is no compute.
  Costs silent = result;
  for (StageCosts& stage : silent.stages) stage.publish_s = 0;
  const Simulation without = simulate(program, silent, plan_network(profile(), nullptr));
  for (size_t rank = 0; rank < 2; ++rank)
    EXPECT_NEAR(run.busy_s[rank], without.busy_s[rank], 1e-12);
}

}  // namespace
}  // namespace penstock::two_layers
