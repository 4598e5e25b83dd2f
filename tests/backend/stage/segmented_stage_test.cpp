// A stage in parts: the memory that it holds, and the same loss and gradients as undivided.
// Gradients of whole models in parts: tests/cli/execute/test_execute.py.
#include "backend/stage/segmented_stage.hpp"

#include <gtest/gtest.h>

#include <set>

#include "backend/device/memory.hpp"
#include "backend/stage/make_stage.hpp"
#include "tests/backend/stage/graph_builder.hpp"
#include "tests/backend/support.hpp"

namespace penstock::test {
namespace {

constexpr int64_t kWide = 64, kSamples = 32;
constexpr int64_t kLayerBytes = kWide * kSamples * 4;  // bytes of one value
constexpr int kLayers = 4;

std::map<int, at::Tensor> copies(const std::map<int, at::Tensor>& tensors) {
  std::map<int, at::Tensor> result;
  for (const auto& [index, tensor] : tensors) result[index] = tensor.clone();
  return result;
}

struct Tower {
  /// linear, tanh, linear, tanh, …; the loss is the mean. Every layer is a unit.
  explicit Tower(const std::set<int>& recomputed) {
    ValueId h = builder.input("x", DType::float32, {Expression::batch(), kWide});
    for (int k = 0; k < kLayers; ++k) {
      h = linear(builder, "layer" + std::to_string(k), h, kWide, kWide);
      h = builder.one("aten::tanh", {{"self", ref(h)}});
    }
    graph = builder.finish({h});
    analysis = analyse(graph);
    slicing = slice(graph, analysis, interval_stages(graph, {0}), 1);
    for (const int layer : recomputed)
      slicing.stages[0].recomputed.push_back({2 * layer, 2 * layer + 2});
    store = std::make_unique<TensorStore>(copies(builder.tensors));
    stage = make_stage(graph, analysis, slicing, 0, *store, Loss::output);
    inputs = {{graph.inputs[0], numbers("x", {kSamples, kWide})}};
    context.batch = kSamples;
    step();  // gradients are stored now
  }

  double forward() { return stage->forward(0, inputs, std::nullopt, context).loss->item<double>(); }
  double step(bool split = false) {
    const double loss = forward();
    if (split) {
      stage->backward_input(0, {});
      stage->backward_weight(0);
    } else {
      stage->backward(0, {});
    }
    stage->finish_step();
    return loss;
  }

  GraphBuilder builder;
  Graph graph;
  Analysis analysis;
  Slicing slicing;
  std::unique_ptr<TensorStore> store;
  std::unique_ptr<Stage> stage;
  Values inputs;
  StepContext context;
};

std::vector<std::set<int>> all_sets() {
  std::vector<std::set<int>> sets(1 << kLayers);
  for (size_t set = 0; set < sets.size(); ++set)
    for (int layer = 0; layer < kLayers; ++layer)
      if ((set >> layer & 1) != 0) sets[set].insert(layer);
  return sets;
}

// tanh saves its output, the next linear the same tensor; the output of a recomputed layer is kept.
TEST(SegmentedStage, KeepsTheOutputsOfRecomputedUnits) {
  for (const std::set<int>& recomputed : all_sets()) {
    SCOPED_TRACE(::testing::PrintToString(recomputed));
    Tower tower(recomputed);
    const int64_t before = memory::held_bytes();
    tower.forward();
    // No other unit keeps the last output: its own does, or recomputes it.
    const bool last = recomputed.contains(kLayers - 1);
    const int64_t seed = last ? 0 : 4;  // of the loss
    EXPECT_EQ(memory::held_bytes() - before, (last ? kLayers - 1 : kLayers) * kLayerBytes + seed);
    tower.stage->backward(0, {});
    EXPECT_EQ(memory::held_bytes(), before);
  }
}

TEST(SegmentedStage, TrainsAsTheUndividedStage) {
  for (const bool split : {false, true}) {
    Tower whole({});
    const double loss = whole.step(split);
    for (const std::set<int>& recomputed : all_sets()) {
      SCOPED_TRACE(::testing::PrintToString(recomputed));
      Tower tower(recomputed);
      EXPECT_EQ(tower.step(split), loss);
      for (int tensor = 0; tensor < static_cast<int>(tower.graph.tensors.size()); ++tensor)
        EXPECT_TRUE(at::equal(tower.store->gradient(tensor), whole.store->gradient(tensor)))
            << tensor;
    }
  }
}

}  // namespace
}  // namespace penstock::test
