// A stage of three operators, each a unit:
//
//   x ── a ── b ── c          after F  after I  transients F, B   F
//                       a       100       10        1,  2        1 s
//                       b       200       20        3,  4        2 s
//                       c       400       40        5,  6        4 s
#include "simulator/costs/recompute_costs.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr int64_t a_bytes = 8L * 4 * 1, b_bytes = 8L * 4 * 2;  // of the values that they make

Value value(Value::Kind kind, int64_t width, OperatorId producer) {
  return {.kind = kind, .shape = {Expression::batch(), width}, .producer = producer};
}

Operator reads(ValueId input, ValueId output) {
  return {.arguments = {{"self", TensorRef{input}}}, .outputs = {output}};
}

Graph three_operators() {
  Graph graph;
  graph.values = {value(Value::Kind::user_input, 3, -1), value(Value::Kind::intermediate, 1, 0),
                  value(Value::Kind::intermediate, 2, 1), value(Value::Kind::intermediate, 4, 2)};
  graph.operators = {reads(0, 1), reads(1, 2), reads(2, 3)};
  graph.outputs = {{"output", TensorRef{3}}};
  return graph;
}

OperatorCost cost(double forward_s, int64_t after_forward, int64_t after_input,
                  int64_t transient_forward, int64_t transient_backward) {
  OperatorCost cost;
  cost.times.forward.mean_s = forward_s;
  cost.held = {.after_forward = after_forward,
               .after_input = after_input,
               .transient_forward = transient_forward,
               .transient_backward = transient_backward};
  return cost;
}

RecomputeCosts costs_of(std::vector<Segment> recomputed, bool split_backward = false) {
  Slicing slicing;
  slicing.stage_of_operator = {0, 0, 0};
  slicing.stages = {{.operators = {0, 1, 2}, .outputs = {0}, .recomputed = std::move(recomputed)}};
  MicrobatchCosts measured;
  measured.microbatch = 8;
  measured.loss_forward.mean_s = 0.5;
  measured.operators = {cost(1, 100, 10, 1, 2), cost(2, 200, 20, 3, 4), cost(4, 400, 40, 5, 6)};
  return recompute_costs(three_operators(), slicing, 0, measured, split_backward);
}

TEST(RecomputeCosts, AllAtOnceKeepsNothingAndMakesAllAgain) {
  const RecomputeCosts costs = costs_of({{0, 3}});
  EXPECT_EQ(costs.forward_s, 1 + 2 + 4 + 0.5);  // and the loss
  EXPECT_EQ(costs.saved_bytes, 0);
  EXPECT_EQ(costs.remade_bytes, 700);
  EXPECT_EQ(costs.transient_forward_bytes, 700);
  EXPECT_EQ(costs.transient_backward_bytes, 700 + 6);
}

TEST(RecomputeCosts, OneByOneHoldsOneAtATimeAndWhatTheyHandOn) {
  const RecomputeCosts costs = costs_of({{0, 1}, {1, 2}, {2, 3}});
  EXPECT_EQ(costs.forward_s, 1 + 2 + 4 + 0.5);
  EXPECT_EQ(costs.saved_bytes, a_bytes + b_bytes);
  EXPECT_EQ(costs.transient_backward_bytes, 400 + 6);
  EXPECT_EQ(costs.remade_bytes, 400);
}

// c's backward comes first, while 400 more are kept; then b's makes 200 again in their place.
TEST(RecomputeCosts, WhatLaterUnitsSavedIsFreeWhenEarlierOnesRunAgain) {
  const RecomputeCosts costs = costs_of({{0, 1}, {1, 2}});
  EXPECT_EQ(costs.forward_s, 1 + 2);
  EXPECT_EQ(costs.saved_bytes, a_bytes + b_bytes + 400);
  EXPECT_EQ(costs.transient_backward_bytes, 6);
  EXPECT_EQ(costs.remade_bytes, 0);
  EXPECT_EQ(costs.transient_forward_bytes, 200);
}

// At b what c's W still needs is there, at a that of b as well.
TEST(RecomputeCosts, BetweenInputAndWeightLaterUnitsHoldWhatTheirWeightsNeed) {
  const RecomputeCosts all = costs_of({{0, 1}, {1, 2}, {2, 3}}, true);
  EXPECT_EQ(all.transient_backward_bytes, 400 + 6);
  const RecomputeCosts middle = costs_of({{1, 3}}, true);
  EXPECT_EQ(middle.transient_backward_bytes, 600 + 6);
  const RecomputeCosts first = costs_of({{0, 1}}, true);
  EXPECT_EQ(first.transient_backward_bytes, 6);
  EXPECT_EQ(first.saved_bytes, a_bytes + 600);
}

}  // namespace
}  // namespace penstock
