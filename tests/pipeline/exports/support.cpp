#include "tests/pipeline/exports/support.hpp"

#include "tests/graph/build_graph.hpp"
#include "tests/pipeline/support.hpp"
#include "tests/pipeline/tiny_model.hpp"

namespace penstock {

Plan export_plan(std::vector<StagePlan> stages, const std::string& schedule) {
  Plan plan;
  plan.path = "plan.yaml";
  plan.schedule = schedule;
  plan.microbatches = 8;
  plan.microbatch = 2;
  plan.data_parallel = 3;
  plan.job.global_batch = 48;
  plan.stages = std::move(stages);
  return plan;
}

Plan export_chain(const std::vector<std::string>& begins, const std::string& schedule) {
  std::vector<StagePlan> stages;
  stages.reserve(begins.size());
  for (const std::string& begin : begins)
    stages.push_back({static_cast<int>(stages.size()), begin});
  return export_plan(std::move(stages), schedule);
}

std::string exported(Export write, const Plan& plan, const Graph& model) {
  const Analysis analysis = analyse(model);
  const Slicing slicing = slice(plan, model, analysis);
  return write({plan, model, analysis, slicing});
}

std::string export_refusal(Export write, const Plan& plan, const Graph& model) {
  return input_error([&] { exported(write, plan, model); });
}

Graph stack_of(int layers) {
  TinyModel model;
  model.add("embedding", {"embed"});
  for (int i = 0; i < layers; ++i) {
    const std::string path = "layers." + std::to_string(i), number = std::to_string(i);
    model.add("linear_" + number, {path, path + ".linear"});
    model.add("relu_" + number, {path, path + ".relu"});
  }
  return model.add("normed", {"norm"}).add("logits", {"head"}).graph();
}

Graph branches() {
  testing::GraphBuilder b;
  const ValueId x = b.input("x", {testing::batch, 4});
  const auto layer = [&](std::vector<ValueId> reads, const std::string& module) {
    reads.push_back(b.parameter(module + ".w", {4, 4}));
    return b.op("aten::linear", reads, {testing::batch, 4}, {module});
  };
  const ValueId one = layer({x}, "one"), two = layer({x}, "two"), three = layer({one}, "three");
  b.output(layer({two, three}, "four"));
  return b.graph;
}

Graph with_positions(bool late) {
  testing::GraphBuilder b;
  const testing::Shape shape = {testing::batch, 4};
  const ValueId x = b.input("x", shape);
  const auto weight = [&](const std::string& module) { return b.parameter(module + ".w", {4, 4}); };
  ValueId h = b.op("aten::linear", {x, weight("tokens")}, shape, {"tokens"});
  const ValueId positions = b.op("aten::t", {weight("positions")}, {4, 4}, {"positions"});
  h = b.op("aten::add", {h, positions}, shape);
  h = b.op("aten::linear", {h, weight("layers.0")}, shape, {"layers.0"});
  std::vector<ValueId> reads = {h, weight("layers.1")};
  if (late) reads.push_back(positions);
  h = b.op("aten::linear", reads, shape, {"layers.1"});
  b.output(b.op("aten::linear", {h, weight("head")}, shape, {"head"}));
  return b.graph;
}

}  // namespace penstock
