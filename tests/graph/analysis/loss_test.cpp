// Parameters that get a gradient from the loss.
#include "graph/analysis/loss.hpp"

#include <gtest/gtest.h>

#include "tests/graph/build_graph.hpp"

namespace penstock {
namespace {

using testing::batch;
using testing::GraphBuilder;

/// Indices in Graph::tensors, which are added in order.
TEST(TensorsOfLoss, AreThoseThatPassAGradientToTheFirstOutput) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 4});
  const auto w0 = b.parameter("w0", {4, 4}), w1 = b.parameter("w1", {4, 4}),
             w2 = b.parameter("w2", {4, 4}), w3 = b.parameter("w3", {4, 4}),
             w4 = b.frozen("w4", {4, 4});
  const auto h = b.op("aten::linear", {x, w0}, {batch, 4});
  const auto stopped =
      b.op("aten::detach", {b.op("aten::linear", {x, w1}, {batch, 4})}, {batch, 4});
  const auto sum = b.op("aten::add", {h, stopped}, {batch, 4});
  b.output(b.op("aten::linear", {sum, w4}, {batch, 4}));
  b.output(b.op("aten::linear", {b.op("aten::linear", {h, w2}, {batch, 4}), w3}, {batch, 4}));
  EXPECT_EQ(tensors_of_loss(b.graph, analyse(b.graph)), std::set<int>{0});
}

TEST(TensorsOfLoss, AreAllThatAreTrainedWhereOperatorsWriteToTheirInputs) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 4});
  const auto w0 = b.parameter("w0", {4}), w1 = b.parameter("w1", {4}), w2 = b.frozen("w2", {4});
  const auto h = b.op("aten::mul", {x, w0}, {batch, 4});
  b.op("aten::mul_", {b.op("aten::view", {h}, {batch, 4}), w1}, {batch, 4});
  b.output(b.op("aten::mul", {h, w2}, {batch, 4}));  // it also has w1 in it
  EXPECT_EQ(tensors_of_loss(b.graph, analyse(b.graph)), (std::set<int>{0, 1}));
}

}  // namespace
}  // namespace penstock
