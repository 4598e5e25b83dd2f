// What a stage holds, when and for how long.
#include <gtest/gtest.h>

#include "backend/device/memory.hpp"
#include "tests/backend/stage/tower.hpp"

namespace penstock::test {
namespace {

constexpr int64_t kActivation = kWidth * kRows * 4;  // bytes of one value
constexpr int64_t kWeight = kWidth * kWidth * 4;

/// A tower as one stage.
struct TowerStage {
  GraphBuilder builder;
  Graph graph;
  StageRow row;
  Batch batch;

  TowerStage(int layers, int microbatches, bool recompute = false)
      : graph(tower(builder, layers)),
        row(graph, builder.tensors, {0}, Loss::output, recompute),
        batch(tower_batch(graph, microbatches)) {}
};

TEST(StageMemory, IsHeldFromForwardToBackwardAndNoLonger) {
  TowerStage tower(3, 2);
  tower.row.step(tower.batch, Backward::whole);  // gradients are stored now
  const int64_t before = memory::held_bytes();
  tower.row.forward(tower.batch, 0);
  // tanh saves its output, the next linear saves the same tensor; the last one is the mean's input.
  EXPECT_EQ(memory::held_bytes() - before, 3 * kActivation + 4);  // and the seed of the loss
  tower.row.forward(tower.batch, 1);
  EXPECT_EQ(memory::held_bytes() - before, 2 * (3 * kActivation + 4));
  tower.row.backward(0, Backward::whole);
  EXPECT_EQ(memory::held_bytes() - before, 3 * kActivation + 4);
  tower.row.backward(1, Backward::whole);
  EXPECT_EQ(memory::held_bytes(), before);
}

TEST(StageMemory, AStageThatRecomputesKeepsWhatItWasGiven) {
  TowerStage tower(3, 2, true);
  tower.row.step(tower.batch, Backward::split);
  const int64_t before = memory::held_bytes();
  tower.row.forward(tower.batch, 0);
  tower.row.forward(tower.batch, 1);
  EXPECT_EQ(memory::held_bytes(), before);  // the inputs are the caller's
  for (const int m : {0, 1}) tower.row.backward(m, Backward::whole);
  EXPECT_EQ(memory::held_bytes(), before);
}

TEST(StageMemory, BetweenInputAndWeightIsWhatTheWeightsNeed) {
  TowerStage tower(3, 1);
  tower.row.step(tower.batch, Backward::split);
  const int64_t before = memory::held_bytes();
  tower.row.forward(tower.batch, 0);
  tower.row.stage(0).backward_input(0, {});
  // Each linear: its input (the first one's is the caller's) and the gradient of its output.
  EXPECT_EQ(memory::held_bytes() - before, 2 * kActivation + 3 * kActivation);
  tower.row.stage(0).backward_weight(0);
  EXPECT_EQ(memory::held_bytes(), before);
}

TEST(StageMemory, TheInputBackwardFreesOnTheWay) {
  GraphBuilder b;
  ValueId h = linear(b, "first", b.input("x", DType::float32, {Expression::batch(), kWidth}),
                     kWidth, kWidth);
  for (int k = 0; k < 8; ++k) h = b.one("aten::tanh", {{"self", ref(h)}});
  const Graph graph = b.finish({h});
  StageRow row(graph, b.tensors, {0}, Loss::output);
  const Batch batch = tower_batch(graph, 1);
  row.step(batch, Backward::split);
  const int64_t before = memory::held_bytes();
  row.forward(batch, 0);
  ASSERT_EQ(memory::held_bytes() - before, 8 * kActivation + 4);
  memory::reset_peak();
  row.stage(0).backward_input(0, {});
  // Eight activations, less those already freed, and at most three gradients at any time.
  EXPECT_LE(memory::peak_bytes() - before, 10 * kActivation + 8);
  row.stage(0).backward_weight(0);
}

TEST(StageMemory, AForwardDropsValuesAfterTheirLastReader) {
  TowerStage tower(6, 1);
  const int64_t before = memory::held_bytes();
  memory::reset_peak();
  tower.row.forward(tower.batch, 0, /*training=*/false);
  EXPECT_LE(memory::peak_bytes() - before, 2 * kActivation + 64);
  tower.row.outputs.clear();
  EXPECT_EQ(memory::held_bytes(), before);
}

TEST(StageMemory, OfAWholeStepHasGradientsOfOneOperatorAtATime) {
  TowerStage tower(6, 2);
  tower.row.step(tower.batch, Backward::whole);
  const int64_t before = memory::held_bytes();
  tower.row.forward(tower.batch, 0);
  memory::reset_peak();
  const int64_t held = memory::held_bytes();
  tower.row.backward(0, Backward::whole);
  // New gradients are added to the stored ones as they come: one weight, one bias, and the
  // activation gradients around them, never those of all six layers.
  EXPECT_LE(memory::peak_bytes() - held, kWeight + kWidth * 4 + 3 * kActivation);
  EXPECT_EQ(memory::held_bytes(), before);
}

TEST(StageMemory, ResetDropsWhatUnfinishedMicrobatchesHold) {
  TowerStage tower(2, 2);
  const int64_t before = memory::held_bytes();
  tower.row.forward(tower.batch, 0);
  tower.row.forward(tower.batch, 1);
  tower.row.stage(0).reset();
  EXPECT_EQ(memory::held_bytes(), before);
  EXPECT_THROW(tower.row.stage(0).backward(0, {}), std::logic_error);
}

}  // namespace
}  // namespace penstock::test
