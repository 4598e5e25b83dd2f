// Estimates of single operators, worked by hand.
#include "estimate/work.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.hpp"
#include "estimate/sizes.hpp"
#include "graph/pt2/pt2.hpp"
#include "tests/estimate/support.hpp"
#include "tests/models/models.hpp"

namespace penstock {
namespace {

using testing::batch;
using testing::GraphBuilder;
using testing::two_linears;

/// FLOPs and bytes of each piece of work.
std::vector<std::pair<double, double>> amounts(const std::vector<Work>& work) {
  std::vector<std::pair<double, double>> result;
  result.reserve(work.size());
  for (const Work& piece : work) result.emplace_back(piece.flops, piece.bytes);
  return result;
}
using Amounts = std::vector<std::pair<double, double>>;

OperatorWork work(const GraphBuilder& b, OperatorId id, int64_t size) {
  const EstimateModel model(b.graph);
  return work_of(model, model.op(id), size, true);
}

TEST(EstimatedLinear, MultipliesOnceForwardAndOnceForEachGradient) {
  const OperatorWork second = work(two_linears(), 1, 2);
  // 2 x 2 x 4 x 8 FLOPs; h 64, w2 128, result 32 bytes.
  EXPECT_EQ(amounts(second.forward), (Amounts{{128, 224}}));
  EXPECT_EQ(amounts(second.input), (Amounts{{128, 224}}));
  // The gradient, and adding it to the stored one: 3 x 128 bytes.
  EXPECT_EQ(amounts(second.weight), (Amounts{{128, 224}, {0, 384}}));
}

TEST(EstimatedLinear, OnTheModelsInputHasNoInputGradientAndItsBiasASum) {
  const OperatorWork first = work(two_linears(), 0, 2);
  // 2 x 2 x 8 x 4 and 16 additions; x 32, w1 128, b1 32, result 64 bytes.
  EXPECT_EQ(amounts(first.forward), (Amounts{{144, 256}}));
  EXPECT_TRUE(first.input.empty());
  EXPECT_EQ(amounts(first.weight), (Amounts{{144, 224}, {16, 96}, {0, 480}}));
}

TEST(EstimatedLinear, TakesTheLongerOfComputingAndMovingAndALaunch) {
  const DeviceSpec device = testing::round_spec();  // products reach half of everything
  EXPECT_DOUBLE_EQ(seconds(device, {{OperatorClass::gemm, DType::float32, 128, 224}}),
                   224 / 500.0 + 0.25);
  EXPECT_DOUBLE_EQ(seconds(device, {{OperatorClass::gemm, DType::float32, 1e5, 224}}),
                   1e5 / 5e3 + 0.25);
  EXPECT_EQ(seconds(device, {}), 0);
}

TEST(EstimatedRecurrence, GivesEachMatrixItsPartOfTheProducts) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 4});
  const auto w = b.parameter("w", {8, 4}), u = b.parameter("u", {8, 12});
  b.output(b.op("aten::lstm", {x, w, u}, {batch, 2}));
  const OperatorWork lstm = work(b, 0, 1);
  ASSERT_EQ(lstm.forward.size(), 1U);
  EXPECT_EQ(lstm.weight[0].flops + lstm.weight[1].flops, lstm.forward[0].flops);
  EXPECT_EQ(lstm.weight[1].flops, 3 * lstm.weight[0].flops);
}

TEST(EstimatedAttention, MultipliesTwoAndAHalfTimesAsMuchBackwardAndHasNoWeights) {
  GraphBuilder b;
  const testing::Shape shape{batch, 2, 4, 8};
  const auto x = b.input("x", shape);
  std::vector<ValueId> qkv;
  for (const char* name : {"q", "k", "v"})
    qkv.push_back(b.op("aten::mul", {x, b.parameter(name, {8})}, shape));
  b.output(b.op("aten::scaled_dot_product_attention", qkv, shape));
  b.named({"query", "key", "value"});
  const OperatorWork attention = work(b, 3, 3);
  // Each of the four tensors is 3 x 2 x 4 x 8 floats, 768 bytes; 4 x 3 x 2 x 4 x 4 x 8 FLOPs.
  EXPECT_EQ(amounts(attention.forward), (Amounts{{3072, 4 * 768}}));
  // Reads the result's gradient, the four and 24 log-sum-exps; moves as much again for the rest.
  EXPECT_EQ(amounts(attention.input), (Amounts{{7680, 768 + 2 * (4 * 768 + 24 * 4)}}));
  EXPECT_TRUE(attention.weight.empty());
  EXPECT_EQ(attention.forward.front().kind, OperatorClass::attention);
}

TEST(EstimatedLayerNorm, ReadsItsInputAndStatisticsAgain) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 8});
  const auto h = b.op("aten::mul", {x, b.parameter("s", {8})}, {batch, 8});
  const auto w = b.parameter("w", {8}), shift = b.parameter("b", {8});
  b.output(b.op("aten::layer_norm", {h, w, shift}, {batch, 8}));
  b.named({"input", "weight", "bias"},
          {{"normalized_shape", std::vector<Expression>{Expression(8)}}});
  const OperatorWork norm = work(b, 1, 4);
  EXPECT_EQ(amounts(norm.forward), (Amounts{{256, 128 + 32 + 32 + 128}}));
  // Gradient 128, input 128, mean and deviation of four rows 32, own gradient 128.
  EXPECT_EQ(amounts(norm.input), (Amounts{{256, 416}}));
  // Once for weight and bias; both are added to the stored ones.
  EXPECT_EQ(amounts(norm.weight), (Amounts{{256, 128 + 160 + 32}, {0, 3 * 64}}));
}

TEST(EstimatedEmbedding, ReadsTheRowsItReturnsAndClearsAWholeTableBackward) {
  GraphBuilder b;
  const auto tokens = b.input("tokens", {batch, 3}, DType::int64);
  const auto table = b.parameter("table", {10, 4});
  b.output(b.op("aten::embedding", {table, tokens}, {batch, 3, 4}));
  const OperatorWork embedding = work(b, 0, 2);
  EXPECT_EQ(amounts(embedding.forward), (Amounts{{0, 96 + 48 + 96}}));
  EXPECT_TRUE(embedding.input.empty());
  EXPECT_EQ(amounts(embedding.weight), (Amounts{{0, 160 + 3 * 96}, {0, 3 * 160}}));
}

TEST(EstimatedView, CostsNothing) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 8});
  const auto h = b.op("aten::mul", {x, b.parameter("s", {8})}, {batch, 8});
  b.output(b.op("aten::view", {h}, {batch, 2, 4}));
  const OperatorWork view = work(b, 1, 4);
  EXPECT_TRUE(view.forward.empty() && view.input.empty() && view.weight.empty());
}

TEST(EstimatedSum, OfTwoBranchesPassesItsGradientOnAndTheirRootAddsThemUp) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 8});
  const auto h = b.op("aten::mul", {x, b.parameter("s", {8})}, {batch, 8});
  const auto branch = b.op("aten::relu", {h}, {batch, 8});
  b.output(b.op("aten::add", {h, branch}, {batch, 8}));
  EXPECT_TRUE(work(b, 2, 1).input.empty());
  // Gradient, saved result and own gradient of 8 floats each.
  EXPECT_EQ(amounts(work(b, 1, 1).input), (Amounts{{8, 96}}));
  EXPECT_EQ(amounts(work(b, 0, 1).input), (Amounts{{8, 96}}));  // one addition
}

}  // namespace
}  // namespace penstock
