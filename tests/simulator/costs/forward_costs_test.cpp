// Costs of inference, of a model of three operators by hand:
//
//              makes      keeps   F: net, peak
//   x ── a     A  32 B    x       132    140
//        b     B  64 B    A       264    270
//        c     C 128 B    C       464    600     with 400 that the loss keeps; B goes here
#include "simulator/costs/forward_costs.hpp"

#include <gtest/gtest.h>

namespace penstock::forward_costs_by_hand {
namespace {

Value value(Value::Kind kind, int64_t width, OperatorId producer) {
  return {.kind = kind, .shape = {Expression::batch(), width}, .producer = producer};
}

Operator reads(ValueId input, ValueId output) {
  Operator op{.outputs = {output}};
  op.arguments.push_back({"x", TensorRef{input}});
  return op;
}

OperatorCost cost(MemoryChange forward, std::vector<int> keeps) {
  OperatorCost cost;
  cost.times = {.forward = {.mean_s = 1}, .backward = {.mean_s = 2}};
  cost.held = {.forward = forward, .backward = {-forward.net, 10}};
  cost.values.keeps = std::move(keeps);
  return cost;
}

TEST(ForwardCosts, AreThoseOfForwardsWhoseValuesGoWithTheirLastReader) {
  Graph graph;
  graph.values = {value(Value::Kind::user_input, 3, -1), value(Value::Kind::intermediate, 1, 0),
                  value(Value::Kind::intermediate, 2, 1), value(Value::Kind::intermediate, 4, 2)};
  graph.operators = {reads(0, 1), reads(1, 2), reads(2, 3)};
  graph.outputs = {{"output", TensorRef{3}}};
  Profile training;
  training.microbatches = {
      {.microbatch = 8,
       .operators = {cost({132, 140}, {0}), cost({264, 270}, {0}), cost({464, 600}, {1})},
       .units = {{.begin = 0, .end = 3, .times = {.backward = {.mean_s = 6}}}},
       .loss_forward = {.mean_s = 3}}};
  const MicrobatchCosts costs = forward_costs(training, graph).microbatches.front();
  for (const OperatorCost& op : costs.operators) {
    EXPECT_EQ(op.times, (ActionTimes{.forward = {.mean_s = 1}}));
    EXPECT_EQ(op.held.backward, MemoryChange{});
    EXPECT_TRUE(op.values.keeps.empty());
  }
  EXPECT_EQ(costs.operators[0].held.forward, (MemoryChange{32, 140}));
  EXPECT_EQ(costs.operators[1].held.forward, (MemoryChange{64 - 32, 270}));
  // B goes, and the output, to whoever asked for it.
  EXPECT_EQ(costs.operators[2].held.forward, (MemoryChange{128 - 128 - 64, 600 - 400}));
  EXPECT_EQ(costs.units.front().times.backward.mean_s, 0);
  EXPECT_EQ(costs.loss_forward.mean_s, 0);
}

}  // namespace
}  // namespace penstock::forward_costs_by_hand
