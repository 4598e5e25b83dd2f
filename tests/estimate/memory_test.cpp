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
  return memory_of(EstimateModel(b.graph), loss, two_samples, true).held;
}

std::vector<int64_t> each(const std::vector<HeldBytes>& held, MemoryChange HeldBytes::*action,
                          int64_t MemoryChange::*bytes = &MemoryChange::net) {
  std::vector<int64_t> result;
  result.reserve(held.size());
  for (const HeldBytes& one : held) result.push_back(one.*action.*bytes);
  return result;
}

TEST(HeldByAnMlp, IsWhatEachForwardMakesWithoutWhatItIsTheLastToRead) {
  // The first result goes with relu, which keeps its own (the second linear needs it too); gelu
  // keeps the second linear's, the third linear gelu's. Mean squared error and binary
  // cross-entropy keep the model's output.
  for (const Loss loss : {Loss::mse, Loss::bce_with_logits})
    EXPECT_EQ(each(held(mlp(), loss), &HeldBytes::forward),
              (std::vector<int64_t>{64, 64 - 64, 32, 32, 32}));
  // Cross entropy keeps log-probabilities instead: as many bytes.
  EXPECT_EQ(each(held(mlp(), Loss::cross_entropy), &HeldBytes::forward),
            (std::vector<int64_t>{64, 0, 32, 32, 32}));
  EXPECT_EQ(each(held(mlp(), Loss::output), &HeldBytes::forward),
            (std::vector<int64_t>{64, 0, 32, 32, 0}));
  EXPECT_EQ(each(held(mlp(), Loss::output), &HeldBytes::forward, &MemoryChange::peak),
            (std::vector<int64_t>{64, 64, 32, 32, 32}));
}

// x [batch, 4] -> a part of 8 -> all 16, gathered again in the backward -> 4.
TEST(HeldOfWhatIsGatheredAgain, IsThePart) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 4});
  const auto own = b.op("aten::linear", {x, b.parameter("w1", {8, 4})}, {batch, 8});
  const auto whole = b.op("penstock::all_gather_again", {own}, {batch, 16});
  b.output(b.op("aten::linear", {whole, b.parameter("w2", {4, 16})}, {batch, 4}));
  const std::vector<HeldBytes> found = held(b, Loss::output);
  // The whole of 128 bytes goes with the second linear, and so does the output.
  EXPECT_EQ(each(found, &HeldBytes::forward), (std::vector<int64_t>{64, 128, -128}));
  EXPECT_EQ(each(found, &HeldBytes::forward, &MemoryChange::peak),
            (std::vector<int64_t>{64, 128, 32}));
  // The output's gradient (32) becomes that of the whole (128), while the whole is there again, and
  // the weight's (256); that becomes the part's (64), and the part goes.
  EXPECT_EQ(each(found, &HeldBytes::backward), (std::vector<int64_t>{-64, 64 - 128 - 64, 128}));
  EXPECT_EQ(each(found, &HeldBytes::backward, &MemoryChange::peak),
            (std::vector<int64_t>{128, 64, 128 + 32 + 128 + 256}));
}

TEST(HeldByAnMlp, BetweenIAndWIsTheInputAndTheGradientOfEachWeightOperator) {
  // The first reads the model's input, which counts nowhere.
  EXPECT_EQ(each(held(mlp(), Loss::mse), &HeldBytes::backward_weight),
            (std::vector<int64_t>{-64, 0, -(64 + 32), 0, -(32 + 32)}));
}

TEST(HeldByAnMlp, InTheBackwardIsWhatEachMakesAndLetsGoOf) {
  const std::vector<HeldBytes> mse = held(mlp(), Loss::mse);
  // The loss exchanges the output for its gradient; the third linear that for gelu's gradient, and
  // lets go of gelu's result; gelu exchanges gradients and lets go of its input; the second linear
  // exchanges 32 for 64; relu lets go of its result; the first has nobody to hand a gradient to.
  EXPECT_EQ(each(mse, &HeldBytes::backward), (std::vector<int64_t>{-64, -64, 64 - 32, -32, -32}));
  // The loss: 32. w3 takes 64, w2 128, w1 128.
  EXPECT_EQ(each(mse, &HeldBytes::backward, &MemoryChange::peak),
            (std::vector<int64_t>{128, 64, 64 + 128, 32, 32 + 64}));
}

TEST(ValuesOfAnMlp, TellWhatEachBackwardNeeds) {
  const GraphBuilder b = mlp();
  const EstimatedMemory memory = memory_of(EstimateModel(b.graph), Loss::mse, two_samples, true);
  // Numbers: a linear reads its input (0) and weight (1) and makes 2; others read 0 and make 1.
  EXPECT_EQ(memory.values[0].keeps, std::vector<int>{0});
  EXPECT_EQ(memory.values[1].keeps, std::vector<int>{1});
  EXPECT_EQ(memory.values[3].keeps, std::vector<int>{0});
  EXPECT_EQ(memory.values[4].keeps, (std::vector<int>{0, 2}));  // and the loss its output
}

TEST(HeldByViews, IsTheMemoryBehindThem) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 4});
  const auto h = b.op("aten::linear", {x, b.parameter("w1", {8, 4})}, {batch, 8});
  const auto parts = b.ops("aten::split", {h}, {{batch, 4}, {batch, 4}});
  const auto product = b.op("aten::mul", {parts[0], parts[1]}, {batch, 4});
  b.output(b.op("aten::view", {product}, {batch, 2, 2}));
  // Both halves are kept: all of h, once.
  EXPECT_EQ(each(held(b, Loss::output), &HeldBytes::forward),
            (std::vector<int64_t>{64, 0, 32, -32}));
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
  EXPECT_EQ(each(held(b, Loss::output), &HeldBytes::forward), (std::vector<int64_t>{64, 0, 0}));
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
  const auto all = memory_of(model, Loss::cross_entropy, 4, true).held;
  for (const std::string block : {"blocks.0", "blocks.1"}) {
    int64_t sum = 0;
    for (OperatorId id = 0; id < model.operators(); ++id) {
      const std::vector<std::string>& modules = model.op(id).modules;
      if (std::ranges::find(modules, block) != modules.end())
        sum += all[static_cast<size_t>(id)].forward.net;
    }
    EXPECT_EQ(sum, bytes * tokens * (16 * hidden + 4 + heads)) << block;
  }
}

}  // namespace
}  // namespace penstock
