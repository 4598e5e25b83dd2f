// The memory of stages of a model of three operators, by hand:
//
//              makes      keeps   own    F: net, peak   B: net, peak
//   x ── a     A  32 B    x       100    132   140      -132   10
//        b     B  64 B    A       200    264   270      -264   40
//        c     C 128 B    C       400    464   600      -464   80
//
// B goes with c, its last reader. x has 96 bytes.
#include "simulator/memory/stage_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "simulator/memory/value_lives.hpp"

namespace penstock::stage_by_hand {
namespace {

constexpr ValueId x = 0, a_value = 1, b_value = 2, c_value = 3;

Value value(Value::Kind kind, int64_t width, OperatorId producer) {
  return {.kind = kind, .shape = {Expression::batch(), width}, .producer = producer};
}

Operator reads(std::vector<ValueId> inputs, ValueId output) {
  Operator op{.outputs = {output}};
  for (const ValueId input : inputs) op.arguments.push_back({"x", TensorRef{input}});
  return op;
}

OperatorCost cost(MemoryChange forward, MemoryChange backward, std::vector<int> keeps) {
  OperatorCost cost;
  cost.held = {.forward = forward,
               .backward = backward,
               .backward_input = {backward.net + 8, backward.peak},
               .backward_weight = {-8, 5}};
  cost.values.keeps = std::move(keeps);
  return cost;
}

class StageMemoryTest : public ::testing::Test {
 protected:
  StageMemoryTest() {
    graph.values = {value(Value::Kind::user_input, 3, -1), value(Value::Kind::intermediate, 1, 0),
                    value(Value::Kind::intermediate, 2, 1), value(Value::Kind::intermediate, 4, 2)};
    graph.operators = {reads({x}, a_value), reads({a_value}, b_value), reads({b_value}, c_value)};
    graph.outputs = {{"output", TensorRef{c_value}}};
    measured.microbatch = 8;
    measured.operators = {cost({132, 140}, {-132, 10}, {0}), cost({264, 270}, {-264, 40}, {0}),
                          cost({464, 600}, {-464, 80}, {1})};
  }

  /// `stages`: of a, b and c.
  StageMemory memory(const std::vector<int>& stages, int stage,
                     std::vector<Segment> recomputed = {}, int64_t target_bytes = 0) const {
    Slicing slicing;
    slicing.stage_of_operator = stages;
    slicing.stages.resize(3);
    slicing.stages[0].user_inputs = {x};
    slicing.stages[static_cast<size_t>(stages[2])].outputs = {0};
    for (OperatorId op = 0; op < 3; ++op)
      slicing.stages[static_cast<size_t>(stages[static_cast<size_t>(op)])].operators.push_back(op);
    for (int from = 0; from < 3; ++from)
      for (int to = from + 1; to < 3; ++to) add_edge(slicing, from, to);
    slicing.stages[static_cast<size_t>(stage)].recomputed = std::move(recomputed);
    return stage_memory(ValueLives(graph, measured), measured, slicing, stage, target_bytes);
  }

  void add_edge(Slicing& slicing, int from, int to) const {
    StageEdge edge{from, to, {}};
    for (OperatorId made = 0; made < 2; ++made) {
      if (slicing.stage_of_operator[static_cast<size_t>(made)] != from) continue;
      const ValueId output = graph.operators[static_cast<size_t>(made)].outputs.front();
      for (OperatorId op = 0; op < 3; ++op) {
        const std::vector<ValueId> read = graph.operators[static_cast<size_t>(op)].reads();
        const bool there = slicing.stage_of_operator[static_cast<size_t>(op)] == to;
        if (there && std::ranges::count(read, output) > 0 &&
            std::ranges::count(edge.values, output, &Crossing::value) == 0)
          edge.values.push_back({output, true});
      }
    }
    if (!edge.values.empty()) slicing.edges.push_back(std::move(edge));
  }

  Graph graph;
  MicrobatchCosts measured;
};

TEST_F(StageMemoryTest, OperatorsRunOneAfterTheOther) {
  const StageMemory whole = memory({0, 0, 0}, 0, {}, 16);
  EXPECT_EQ(whole.saved_bytes, 700 + 32 + 128 + 96 + 16);  // own, A, C, x, the target
  EXPECT_EQ(whole.forward_peak, 96 + 16 + 132 + 264 + 600);
  EXPECT_EQ(whole.backward_peak, 80);
  EXPECT_EQ(whole.received_bytes + whole.given_bytes, 0);
}

TEST_F(StageMemoryTest, ASentValueIsKeptByItsMakerOnlyWhereThatNeedsIt) {
  const StageMemory first = memory({0, 1, 1}, 0);
  EXPECT_EQ(first.saved_bytes, 100 + 96);
  EXPECT_EQ(first.messages.at(a_value), 32);
  EXPECT_EQ(first.given_bytes, 32);
  measured.operators[0].values.keeps = {0, 1};  // its result, too
  EXPECT_EQ(memory({0, 1, 1}, 0).saved_bytes, 100 + 96 + 32);
  EXPECT_EQ(memory({0, 1, 1}, 0).messages.at(a_value), 0);
  measured.operators[0].values.strided = {1};
  EXPECT_EQ(memory({0, 1, 1}, 0).messages.at(a_value), 32);  // a copy is sent
}

TEST_F(StageMemoryTest, AReceivedValueIsKeptOnlyWhereItIsNeeded) {
  const StageMemory needs = memory({0, 1, 1}, 1);
  EXPECT_EQ(needs.saved_bytes, 600 + 32 + 128);
  EXPECT_EQ(needs.received_bytes, 32);
  EXPECT_EQ(needs.forward_peak, 264 + 600);
  const StageMemory drops = memory({0, 0, 1}, 1);
  EXPECT_EQ(drops.saved_bytes, 400 + 128);
  EXPECT_EQ(drops.received_bytes, 64);
  EXPECT_EQ(drops.forward_peak, 600);
}

// c's I leaves 8 bytes for its W; beside them the gradient of B, which the stage hands back.
TEST_F(StageMemoryTest, BetweenIAndWIsWhatWFrees) {
  measured.operators[2].held.backward_input.net = -528 + 64 + 8;
  EXPECT_EQ(memory({0, 0, 1}, 1).saved_weight_bytes, 8);
  EXPECT_EQ(memory({0, 0, 1}, 1).backward_weight_peak, 5);
}

// c joins A and B. Its gradient is handed on in parts; in the whole model it stays for b.
TEST_F(StageMemoryTest, TheGradientOfAConcatenationStaysForItsParts) {
  graph.values[c_value] = value(Value::Kind::intermediate, 3, 2);
  graph.operators[2] = reads({a_value, b_value}, c_value);
  measured.operators[2].held.backward = measured.operators[2].held.backward_input = {96, 8};
  measured.operators[2].values.keeps = {};
  measured.operators[1].held.backward = {0, 70};
  const int64_t kept = memory({0, 0, 1}, 1).saved_weight_bytes;
  for (OperatorCost& cost : measured.operators) cost.times.backward.mean_s = 1;
  // The stage of c sends copies of both parts and lets go of what they lay in, C's 96 bytes.
  EXPECT_EQ(memory({0, 0, 1}, 1).saved_weight_bytes, kept - 96);
  // Another stage holds it: b does not let go of it, nor of the gradient of B, 64, that was given.
  EXPECT_EQ(memory({0, 0, 1}, 0).backward_peak, 64 + 96 + 10);  // a on top
}

// In the whole model b's gradient of A is added to c's; a stage of b alone makes one.
TEST_F(StageMemoryTest, AStageMakesAGradientThatTheWholeModelAddsTo) {
  graph.operators[2] = reads({b_value, a_value}, c_value);
  measured.operators[2].values.keeps = {2};
  measured.operators[1].held.backward = {-300, 0};
  measured.operators[1].values.keeps = {};
  const StageMemory middle = memory({0, 1, 2}, 1);
  EXPECT_EQ(middle.received_bytes, 32);
  // B's gradient came from outside and stays: 64; A's is made: 32.
  EXPECT_EQ(middle.backward_peak, 0);
  measured.operators[1].held.backward = {0, 0};
  EXPECT_EQ(memory({0, 1, 2}, 1).backward_peak, 32 + 64);
}

TEST_F(StageMemoryTest, RecomputingAllKeepsWhatWasGivenAndMakesTheRestAgain) {
  const StageMemory stage = memory({0, 0, 0}, 0, {{0, 3}});
  EXPECT_EQ(stage.saved_bytes, 96);
  EXPECT_EQ(stage.forward_peak, 96 + 64 + 600);  // without a backward only B is left at c
  EXPECT_EQ(stage.backward_peak, 132 + 264 + 600);
  EXPECT_EQ(stage.remade_bytes, 700 + 32 + 128);
}

TEST_F(StageMemoryTest, RecomputingAPartKeepsWhatItHandsOnWhereThatIsNeeded) {
  const StageMemory stage = memory({0, 0, 0}, 0, {{0, 1}});
  EXPECT_EQ(stage.saved_bytes, 96 + 600 + 128 + 32);
  // c and b go back first and leave 96 and the gradient of A; then a makes 100 and A again.
  EXPECT_EQ(stage.backward_peak, 80);
  EXPECT_EQ(stage.remade_bytes, 0);
}

TEST_F(StageMemoryTest, WhatAnotherStageOfTheRankHoldsCountsThere) {
  Slicing slicing;
  slicing.stage_of_operator = {0, 1, 1};
  slicing.stages = {{.operators = {0}, .user_inputs = {x}}, {.operators = {1, 2}, .outputs = {0}}};
  slicing.edges = {{0, 1, {{a_value, true}}}};
  const StageMemory stage =
      stage_memory(ValueLives(graph, measured), measured, slicing, 1, 0, {a_value});
  EXPECT_EQ(stage.received_bytes, 0);
  EXPECT_EQ(stage.saved_bytes, 600 + 128);
}

TEST(MemoryChange, OneAfterTheOtherIsAssociative) {
  const MemoryChange one{10, 30}, two{-25, 5}, three{40, 45};
  EXPECT_EQ(one.then(two).then(three), one.then(two.then(three)));
  EXPECT_EQ(one.then(two).then(three), (MemoryChange{25, 30}));
}

}  // namespace
}  // namespace penstock::stage_by_hand
