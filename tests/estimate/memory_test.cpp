// Bytes held, against values worked by hand.
#include "estimate/memory.hpp"

#include <gtest/gtest.h>

#include "estimate/saved.hpp"
#include "graph/pt2/pt2.hpp"
#include "tests/estimate/support.hpp"
#include "tests/models/models.hpp"

namespace penstock {
namespace {

using testing::batch;
using testing::GraphBuilder;

constexpr int64_t two_samples = 2;

/// x [batch, 4] -> 8 -> relu -> 4 -> gelu -> 4.
GraphBuilder mlp() {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 4});
  const auto first = b.op("aten::linear", {x, b.parameter("w1", {8, 4})}, {batch, 8});
  const auto relu = b.op("aten::relu", {first}, {batch, 8});
  const auto second = b.op("aten::linear", {relu, b.parameter("w2", {4, 8})}, {batch, 4});
  const auto gelu = b.op("aten::gelu", {second}, {batch, 4});
  b.output(b.op("aten::linear", {gelu, b.parameter("w3", {4, 4})}, {batch, 4}));
  return b;
}

std::vector<HeldBytes> held(const GraphBuilder& b, Loss loss) {
  return held_bytes(EstimateModel(b.graph), {{0, static_cast<int>(b.graph.operators.size()), ""}},
                    loss, two_samples, true);
}

std::vector<int64_t> each(const std::vector<HeldBytes>& held, int64_t HeldBytes::*bytes) {
  std::vector<int64_t> result;
  result.reserve(held.size());
  for (const HeldBytes& one : held) result.push_back(one.*bytes);
  return result;
}

TEST(HeldByAnMlp, IsWhatEachBackwardNeedsOnceWhereItIsMade) {
  // The first result is kept by nobody (relu keeps its own, which the second linear needs too),
  // the second by gelu, gelu's by the third linear. Mean squared error and binary
  // cross-entropy keep the model's output.
  for (const Loss loss : {Loss::mse, Loss::bce_with_logits})
    EXPECT_EQ(each(held(mlp(), loss), &HeldBytes::after_forward),
              (std::vector<int64_t>{0, 64, 32, 32, 32}));
  // Cross entropy keeps log-probabilities instead: as many bytes.
  EXPECT_EQ(each(held(mlp(), Loss::cross_entropy), &HeldBytes::after_forward),
            (std::vector<int64_t>{0, 64, 32, 32, 32}));
  EXPECT_EQ(each(held(mlp(), Loss::output), &HeldBytes::after_forward),
            (std::vector<int64_t>{0, 64, 32, 32, 0}));
}

TEST(HeldByAnMlp, BetweenIAndWIsTheInputAndTheGradientOfEachWeightOperator) {
  // The first reads the model's input, which counts nowhere.
  EXPECT_EQ(each(held(mlp(), Loss::mse), &HeldBytes::after_input),
            (std::vector<int64_t>{64, 0, 64 + 32, 0, 32 + 32}));
}

TEST(HeldByAnMlp, ForAMomentIsWhatTheForwardDropsAndTheBackwardMakes) {
  const std::vector<HeldBytes> mse = held(mlp(), Loss::mse);
  // The most is held at the end: 160 bytes, and nothing at any time needs more: 64 + 64 at relu.
  EXPECT_EQ(each(mse, &HeldBytes::transient_forward), (std::vector<int64_t>{0, 0, 0, 0, 0}));
  // Backward, from what is held: the loss's gradient 32, the input's 32 and w3's 64 at the third
  // linear; after it 32 (gelu's own) are left and 32 + 32 freed with gelu's result… so that less is
  // needed than before F's end at every later operator but the second linear: gradients of 32 and
  // 64 and 128 of w2, with 32 + 32 + 32 freed before.
  EXPECT_EQ(each(mse, &HeldBytes::transient_backward)[4], 32 + 32 + 64);
  EXPECT_EQ(each(mse, &HeldBytes::transient_backward)[2], 32 + 64 + 128 - 64);
}

TEST(HeldByViews, IsTheMemoryBehindThem) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 4});
  const auto h = b.op("aten::linear", {x, b.parameter("w1", {8, 4})}, {batch, 8});
  const auto parts = b.ops("aten::split", {h}, {{batch, 4}, {batch, 4}});
  const auto product = b.op("aten::mul", {parts[0], parts[1]}, {batch, 4});
  b.output(b.op("aten::view", {product}, {batch, 2, 2}));
  // Both halves are kept: all of h, once.
  EXPECT_EQ(each(held(b, Loss::output), &HeldBytes::after_forward),
            (std::vector<int64_t>{64, 0, 0, 0}));
}

TEST(HeldByDropout, IsAByteAnElementOnAGpuAndAFactorOnACpu) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 4});
  const auto h = b.op("aten::linear", {x, b.parameter("w1", {8, 4})}, {batch, 8});
  b.output(b.op("aten::dropout", {h}, {batch, 8}));
  b.named({"input"}, {{"p", 0.5}, {"train", true}});
  const EstimateModel model(b.graph);
  EXPECT_EQ(saved_for_backward(model, model.op(1), two_samples, true).own_bytes, 16);
  EXPECT_EQ(saved_for_backward(model, model.op(1), two_samples, false).own_bytes, 64);
}

TEST(HeldByWhatIsNotTrained, IsNothing) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 4});
  const auto h = b.op("aten::linear", {x, b.frozen("w1", {8, 4})}, {batch, 8});
  const auto relu = b.op("aten::relu", {h}, {batch, 8});
  b.output(b.op("aten::linear", {relu, b.parameter("w2", {4, 8})}, {batch, 4}));
  EXPECT_EQ(each(held(b, Loss::output), &HeldBytes::after_forward),
            (std::vector<int64_t>{0, 64, 0}));
}

/// A pre-norm block of width H and A heads keeps, for each of the B x T tokens: its input (the
/// residual before it made it, the first norm keeps it), H each of the first norm's result, the
/// attention's result, the first sum, the second norm's result; 3H of queries, keys and values; 4H
/// before and 4H after GELU; so with the second sum in place of the input 16H. Besides two norms'
/// mean and deviation, and a log-sum-exp for each head.
TEST(HeldByATransformerBlock, IsSixteenTimesItsWidthPerToken) {
  PENSTOCK_MODEL(path, "gpt");
  const Graph graph = read_pt2(path);
  const EstimateModel model(graph);
  constexpr int64_t tokens = 64, hidden = 32, heads = 4, bytes = 4;
  const auto all = held_bytes(model, units(graph, model.analysis()), Loss::cross_entropy, 4, true);
  for (const std::string block : {"blocks.0", "blocks.1"}) {
    int64_t sum = 0;
    for (OperatorId id = 0; id < model.operators(); ++id) {
      const std::vector<std::string>& modules = model.op(id).modules;
      if (std::ranges::find(modules, block) != modules.end())
        sum += all[static_cast<size_t>(id)].after_forward;
    }
    EXPECT_EQ(sum, bytes * tokens * (16 * hidden + 4 + heads)) << block;
  }
}

}  // namespace
}  // namespace penstock
