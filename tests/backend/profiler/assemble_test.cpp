// Guarantees of assembling the costs of a microbatch size: parts add up to their whole, views take
// nothing.
#include "backend/profiler/assemble.hpp"

#include <gmock/gmock.h>

#include "backend/profiler/grouping.hpp"
#include "backend/profiler/timing/statistics.hpp"

namespace penstock::profiler {
namespace {

using ::testing::ElementsAre;

/// x -> relu -> view -> mul -> view -> relu, every value [batch, 8].
Graph chain() {
  Graph graph;
  const std::vector<Expression> shape{Expression::batch(), Expression(8)};
  graph.values.push_back({.name = "x", .kind = Value::Kind::user_input, .shape = shape});
  graph.values.push_back(
      {.name = "w", .kind = Value::Kind::tensor, .shape = {Expression(8)}, .tensor = 0});
  graph.tensors = {{.name = "w", .requires_grad = true, .sizes = {8}, .strides = {1}}};
  graph.inputs = {0};
  const auto add = [&](const char* target, const char* overload, std::vector<Argument> arguments) {
    const auto id = static_cast<OperatorId>(graph.operators.size());
    const std::string name = "op" + std::to_string(id);
    graph.operators.push_back({.name = name,
                               .target = target,
                               .overload = overload,
                               .arguments = std::move(arguments),
                               .outputs = {static_cast<ValueId>(graph.values.size())}});
    graph.values.push_back({.name = name, .shape = shape, .producer = id});
    return static_cast<ValueId>(graph.values.size()) - 1;
  };
  const std::vector<Expression> size{Expression(-1), Expression(8)};
  ValueId value = add("aten::mul", "Tensor", {{"self", TensorRef{0}}, {"other", TensorRef{1}}});
  value = add("aten::view", "", {{"self", TensorRef{value}}, {"size", size}});
  value = add("aten::mul", "Tensor", {{"self", TensorRef{value}}, {"other", TensorRef{1}}});
  value = add("aten::view", "", {{"self", TensorRef{value}}, {"size", size}});
  value = add("aten::relu", "", {{"self", TensorRef{value}}});
  graph.outputs = {{"output", TensorRef{value}}};
  graph.dynamic_batch = true;
  return graph;
}

StageCost cost(double forward, double backward) {
  const auto measured = [](double seconds) { return summarize({seconds, seconds, seconds}); };
  return {.times = {.forward = measured(forward),
                    .backward = measured(backward),
                    .backward_input = measured(backward / 2),
                    .backward_weight = measured(backward / 2)}};
}

class Assemble : public ::testing::Test {
 protected:
  const Graph graph_ = chain();
  const Analysis analysis_ = analyse(graph_);
  const std::vector<Unit> units_{{0, 3, "first"}, {3, 5, "second"}};
  const std::vector<OperatorId> groups_ = group_begins(graph_, analysis_, units_);
};

TEST_F(Assemble, GroupsEndWithAnOperatorThatTakesTime) {
  EXPECT_THAT(groups_, ElementsAre(0, 1, 3));
}

TEST_F(Assemble, FewerGroupsAreAskedForInALargeModel) {
  EXPECT_THAT(group_begins(graph_, analysis_, units_, 2), ElementsAre(0, 3));
}

TEST_F(Assemble, UnitsAddUpToTheWholeAndOperatorsToTheirUnit) {
  const Division division{graph_, analysis_, units_, groups_};
  const MicrobatchCosts costs = assemble(division, 4, cost(8, 20), {cost(3, 9), cost(3, 6)},
                                         {cost(1, 2), cost(1, 4), cost(2, 5)});
  ASSERT_EQ(costs.units.size(), 2u);
  ASSERT_EQ(costs.operators.size(), 5u);
  EXPECT_DOUBLE_EQ(costs.units[0].times.forward.mean_s, 4);
  EXPECT_DOUBLE_EQ(costs.units[1].times.forward.mean_s, 4);
  EXPECT_DOUBLE_EQ(costs.units[0].times.backward.mean_s, 12);
  EXPECT_DOUBLE_EQ(costs.units[0].times.backward_weight.mean_s, 6);
  const auto& ops = costs.operators;
  EXPECT_DOUBLE_EQ(ops[0].times.forward.mean_s, 2);
  EXPECT_DOUBLE_EQ(ops[2].times.forward.mean_s, 2);
  EXPECT_DOUBLE_EQ(ops[0].times.backward.mean_s, 4);
  EXPECT_DOUBLE_EQ(ops[2].times.backward.mean_s, 8);
}

/// Costs of a host that takes as long for each F.
StageCost issued(StageCost cost, double forward_s) {
  cost.times.forward.host_s = forward_s;
  return cost;
}

// The host's times are scaled on their own: here the device's parts are too long, the host's too
// short.
TEST_F(Assemble, HostsOfUnitsAddUpToThatOfTheWhole) {
  const Division division{graph_, analysis_, units_, groups_};
  const MicrobatchCosts costs = assemble(
      division, 4, issued(cost(8, 20), 12), {issued(cost(8, 10), 2), issued(cost(8, 10), 4)},
      {issued(cost(1, 2), 1), issued(cost(1, 4), 1), issued(cost(2, 5), 5)});
  EXPECT_DOUBLE_EQ(costs.units[0].times.forward.host_s, 4);
  EXPECT_DOUBLE_EQ(costs.units[1].times.forward.host_s, 8);
  EXPECT_DOUBLE_EQ(costs.units[0].times.forward.mean_s, 4);
  EXPECT_DOUBLE_EQ(costs.operators[0].times.forward.host_s, 2);
  EXPECT_DOUBLE_EQ(costs.operators[2].times.forward.host_s, 2);
  EXPECT_DOUBLE_EQ(costs.operators[4].times.forward.host_s, 8);
  EXPECT_EQ(costs.units[0].times.backward.host_s, 0);
}

TEST_F(Assemble, ViewsTakeNothing) {
  const Division division{graph_, analysis_, units_, groups_};
  const MicrobatchCosts costs = assemble(division, 4, cost(8, 20), {cost(4, 10), cost(4, 10)},
                                         {cost(1, 2), cost(1, 4), cost(2, 5)});
  for (const int view : {1, 3}) {
    EXPECT_EQ(costs.operators[view].times.forward.mean_s, 0);
    EXPECT_EQ(costs.operators[view].times.backward.mean_s, 0);
    EXPECT_EQ(costs.operators[view].flops, 0);
  }
}

TEST_F(Assemble, DescribesOperatorsAndOutputs) {
  const Division division{graph_, analysis_, units_, groups_};
  const MicrobatchCosts costs = assemble(division, 4, cost(8, 20), {cost(4, 10), cost(4, 10)},
                                         {cost(1, 2), cost(1, 4), cost(2, 5)});
  constexpr int64_t value_bytes = int64_t{4} * 8 * 4;  // batch 4, 8 float32
  EXPECT_EQ(costs.operators[0].name, "op0");
  EXPECT_EQ(costs.operators[0].target, "aten::mul.Tensor");
  EXPECT_EQ(costs.operators[0].held.output, value_bytes);
  EXPECT_EQ(costs.units[0].held.output, value_bytes);
  EXPECT_EQ(costs.units[1].held.output, value_bytes);
}

}  // namespace
}  // namespace penstock::profiler
