// Stages get exactly what they need: nothing is missing, nothing is sent in vain.
#include "graph/cuts/slice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/graph/build_graph.hpp"

namespace penstock {
namespace {

using testing::batch;
using ::testing::ElementsAre;
using testing::GraphBuilder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

Slicing cut(const Graph& graph, const std::vector<OperatorId>& begins) {
  return slice(graph, analyse(graph), interval_stages(graph, begins),
               static_cast<int>(begins.size()));
}

/// `0>1: relu(g) add` for each edge; (g) where a gradient returns.
std::string edges(const Graph& graph, const Slicing& slicing) {
  std::string text;
  for (const StageEdge& edge : slicing.edges) {
    text += fmt::format("{}{}>{}:", text.empty() ? "" : "  ", edge.producer, edge.consumer);
    for (const Crossing& crossing : edge.values)
      text += fmt::format(" {}{}", graph.values[crossing.value].name,
                          crossing.carries_gradient ? "(g)" : "");
  }
  return text;
}

TEST(Slice, AChainSendsOneValue) {
  GraphBuilder b;
  auto h = b.input("x", {batch, 4});
  for (int i = 0; i < 3; ++i)
    h = b.op("aten::linear", {h, b.parameter(fmt::format("w{}", i), {4, 4})}, {batch, 4});
  b.output(h);
  const Slicing slicing = cut(b.graph, {0, 1, 2});
  EXPECT_EQ(edges(b.graph, slicing), "0>1: linear(g)  1>2: linear_1(g)");
  EXPECT_THAT(slicing.stages[0].operators, ElementsAre(0));
  EXPECT_THAT(slicing.stages[0].user_inputs, ElementsAre(0));
  EXPECT_THAT(slicing.stages[1].user_inputs, IsEmpty());
  EXPECT_THAT(slicing.stages[1].tensors, ElementsAre(1));
  EXPECT_THAT(slicing.stages[1].outputs, IsEmpty());
  EXPECT_THAT(slicing.stages[2].outputs, ElementsAre(0));
  EXPECT_THAT(slicing.shared, IsEmpty());
}

TEST(Slice, ASkipConnectionGoesStraightToItsReader) {
  GraphBuilder b;
  const auto w = b.parameter("w", {4, 4});
  const auto first = b.op("aten::linear", {b.input("x", {batch, 4}), w}, {batch, 4});
  const auto second = b.op("aten::relu", {first}, {batch, 4});
  b.output(b.op("aten::add", {second, first}, {batch, 4}));
  EXPECT_EQ(edges(b.graph, cut(b.graph, {0, 1, 2})),
            "0>1: linear(g)  0>2: linear(g)  1>2: relu(g)");
}

TEST(Slice, ConstantsAreRecomputedWhereTheyAreNeeded) {
  GraphBuilder b;
  const auto mask = b.op("aten::triu", {b.op("aten::full", {}, {4, 4})}, {4, 4});
  const auto w = b.parameter("w", {4, 4});
  const auto h = b.op("aten::linear", {b.input("x", {batch, 4}), w}, {batch, 4});
  const auto first = b.op("aten::add", {h, mask}, {batch, 4});
  b.output(b.op("aten::mul", {first, mask}, {batch, 4}));
  const Slicing slicing = cut(b.graph, {0, 3, 4});
  EXPECT_EQ(edges(b.graph, slicing), "0>1: linear(g)  1>2: add(g)");
  EXPECT_THAT(slicing.stages[0].operators, ElementsAre(2));  // nobody reads the mask there
  EXPECT_THAT(slicing.stages[1].operators, ElementsAre(0, 1, 3));
  EXPECT_THAT(slicing.stages[2].operators, ElementsAre(0, 1, 4));
}

TEST(Slice, DerivedParametersAreRecomputedAndTheParameterShared) {
  GraphBuilder b;
  const auto w = b.parameter("w", {4, 4});
  const auto half = b.op("aten::_to_copy", {w}, {4, 4});
  const auto h = b.op("aten::linear", {b.input("x", {batch, 4}), half}, {batch, 4});
  b.output(b.op("aten::linear", {h, half}, {batch, 4}));
  const Slicing slicing = cut(b.graph, {0, 2});
  EXPECT_EQ(edges(b.graph, slicing), "0>1: linear(g)");
  EXPECT_THAT(slicing.stages[1].operators, ElementsAre(0, 2));
  ASSERT_EQ(slicing.shared.size(), 1u);
  EXPECT_EQ(slicing.shared[0].tensor, 0);
  EXPECT_THAT(slicing.shared[0].stages, ElementsAre(0, 1));
}

TEST(Slice, UserInputsAreReadByEachStage) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 4}), y = b.input("y", {batch, 4});
  const auto h = b.op("aten::add", {x, b.parameter("w", {4})}, {batch, 4});
  b.output(b.op("aten::mul", {b.op("aten::mul", {h, x}, {batch, 4}), y}, {batch, 4}));
  const Slicing slicing = cut(b.graph, {0, 1});
  EXPECT_EQ(edges(b.graph, slicing), "0>1: add(g)");
  EXPECT_THAT(slicing.stages[0].user_inputs, ElementsAre(x));
  EXPECT_THAT(slicing.stages[1].user_inputs, ElementsAre(x, y));
}

TEST(Slice, NoGradientReturnsThroughDetach) {
  GraphBuilder b;
  const auto w = b.parameter("w", {4, 4});
  const auto h = b.op("aten::linear", {b.input("x", {batch, 4}), w}, {batch, 4});
  const auto kept = b.op("aten::detach", {h}, {batch, 4});
  b.output(b.op("aten::add", {kept, b.parameter("v", {4})}, {batch, 4}));
  EXPECT_EQ(edges(b.graph, cut(b.graph, {0, 1})), "0>1: linear");
  EXPECT_EQ(edges(b.graph, cut(b.graph, {0, 2})), "0>1: detach");
}

TEST(Slice, ABufferBelongsToTheStageThatUpdatesIt) {
  GraphBuilder b;
  const auto mean = b.buffer("mean", {4});
  const auto h =
      b.op("aten::linear", {b.input("x", {batch, 4}), b.parameter("w", {4, 4})}, {batch, 4});
  const auto out = b.ops("aten::_native_batch_norm_legit_functional", {h, mean},
                         {{batch, 4}, {4}, {4}, {4}, {4}});
  b.update(mean, out[3]);
  b.output(b.op("aten::relu", {out[0]}, {batch, 4}));
  const Slicing slicing = cut(b.graph, {0, 1, 2});
  EXPECT_THAT(slicing.stages[0].updates, IsEmpty());
  ASSERT_EQ(slicing.stages[1].updates.size(), 1u);
  EXPECT_EQ(slicing.stages[1].updates[0].tensor, 0);
  EXPECT_THAT(slicing.stages[1].tensors, ElementsAre(0));
  EXPECT_EQ(edges(b.graph, slicing), "0>1: linear(g)  1>2: _native_batch_norm_legit_functional(g)");
}

TEST(Slice, ABufferReadInOneStageAndUpdatedInAnotherIsRefused) {
  GraphBuilder b;
  const auto calls = b.buffer("calls", {});
  const auto h = b.op("aten::mul", {b.input("x", {batch, 4}), calls}, {batch, 4});
  const auto next = b.op("aten::add", {calls}, {});
  b.update(calls, next);
  b.output(h);
  EXPECT_THAT(
      [&] {
        cut(b.graph, {0, 1});
      },
      ThrowsMessage<InputError>(HasSubstr("'calls' is updated in stage 1 and read in stage 0")));
}

TEST(Slice, OutputsThatNoOperatorComputesBelongToTheLastStage) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 4});
  const auto w = b.parameter("w", {4});
  const auto h = b.op("aten::add", {x, w}, {batch, 4});
  b.output(h, "early");
  b.op("aten::relu", {h}, {batch, 4});
  b.output(x, "input");
  b.output(w, "parameter");
  b.graph.outputs.push_back({"number", int64_t{5}});
  const Slicing slicing = cut(b.graph, {0, 1});
  EXPECT_THAT(slicing.stages[0].outputs, ElementsAre(0));
  EXPECT_THAT(slicing.stages[1].outputs, ElementsAre(1, 2, 3));
  EXPECT_THAT(slicing.stages[1].user_inputs, ElementsAre(x));
  EXPECT_THAT(slicing.stages[1].tensors, ElementsAre(0));
}

TEST(Slice, AConstantOutputIsComputedByItsStage) {
  GraphBuilder b;
  b.output(b.op("aten::full", {}, {4}), "mask");
  b.op("aten::relu", {b.input("x", {batch, 4})}, {batch, 4});
  const Slicing slicing = cut(b.graph, {0, 1});
  EXPECT_THAT(slicing.stages[0].operators, ElementsAre(0));
  EXPECT_THAT(slicing.stages[0].outputs, ElementsAre(0));
}

TEST(Slice, AValueThatGoesBackIsRefused) {
  GraphBuilder b;
  const auto h = b.op("aten::relu", {b.input("x", {batch, 4})}, {batch, 4});
  b.output(b.op("aten::tanh", {h}, {batch, 4}));
  const Analysis analysis = analyse(b.graph);
  EXPECT_THAT(
      [&] {
        slice(b.graph, analysis, {1, 0}, 2);
      },
      ThrowsMessage<InputError>(HasSubstr("'relu' goes back from stage 1 to stage 0")));
}

TEST(Slice, StagesNeedNotBeIntervals) {
  GraphBuilder b;
  const auto w = b.parameter("w", {4});
  const auto x = b.input("x", {batch, 4});
  const auto left = b.op("aten::add", {x, w}, {batch, 4});
  const auto right = b.op("aten::mul", {x, w}, {batch, 4});
  const auto again = b.op("aten::relu", {left}, {batch, 4});
  b.output(b.op("aten::add", {again, right}, {batch, 4}));
  const Slicing slicing = slice(b.graph, analyse(b.graph), {0, 1, 0, 1}, 2);
  EXPECT_EQ(edges(b.graph, slicing), "0>1: relu(g)");
  EXPECT_THAT(slicing.stages[1].operators, ElementsAre(1, 3));
}

}  // namespace
}  // namespace penstock
