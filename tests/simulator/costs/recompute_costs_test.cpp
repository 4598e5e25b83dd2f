// A stage of three operators, each a unit, whose F take 1, 2 and 4 s.
#include "simulator/costs/recompute_costs.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

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

OperatorCost cost(double forward_s) {
  OperatorCost cost;
  cost.times.forward.mean_s = forward_s;
  return cost;
}

RecomputeCosts costs_of(std::vector<Segment> recomputed) {
  Slicing slicing;
  slicing.stage_of_operator = {0, 0, 0};
  slicing.stages = {{.operators = {0, 1, 2}, .outputs = {0}, .recomputed = std::move(recomputed)}};
  MicrobatchCosts measured;
  measured.microbatch = 8;
  measured.loss_forward.mean_s = 0.5;
  measured.operators = {cost(1), cost(2), cost(4)};
  return recompute_costs(three_operators(), slicing, 0, measured);
}

TEST(RecomputeCosts, AllAtOnceRunsAllAgainAndTheLoss) {
  EXPECT_EQ(costs_of({{0, 3}}).forward_s, 1 + 2 + 4 + 0.5);
}

TEST(RecomputeCosts, OneByOneTheSame) {
  EXPECT_EQ(costs_of({{0, 1}, {1, 2}, {2, 3}}).forward_s, 1 + 2 + 4 + 0.5);
}

TEST(RecomputeCosts, OnlyWhatIsRecomputedRunsAgain) {
  EXPECT_EQ(costs_of({{0, 1}, {1, 2}}).forward_s, 1 + 2);
}

}  // namespace
}  // namespace penstock
