#include "tests/pipeline/exports/support.hpp"

#include "pipeline/sharding/group_completion.hpp"
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
  if (plan.tensor_parallel == 1) return write({plan, model, analysis, slicing});
  const auto completion = group_completion(model, plan.job.loss, plan.sharding, plan.microbatch,
                                           static_cast<int>(plan.tensor_parallel));
  return write({plan, model, analysis, slicing, &completion});
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

Graph residual_stack(int layers) {
  testing::GraphBuilder b;
  const testing::Shape shape = {testing::batch, 4, 8}, wide = {testing::batch, 4, 16};
  const auto linear = [&](ValueId x, const std::string& name, const testing::Shape& result,
                          std::vector<int64_t> sizes, std::vector<std::string> modules) {
    const ValueId weight = b.parameter(name + ".weight", std::move(sizes));
    modules.push_back(name);
    const ValueId y = b.op("aten::linear", {x, weight}, result, std::move(modules));
    b.named({"input", "weight"});
    return y;
  };
  const ValueId ids = b.input("ids", {testing::batch, 4}, DType::int64);
  ValueId h =
      b.op("aten::embedding", {b.parameter("words.weight", {16, 8}), ids}, shape, {"words"});
  b.named({"weight", "indices"});
  for (int i = 0; i < layers; ++i) {
    const std::string layer = "layers." + std::to_string(i);
    const ValueId up = linear(h, layer + ".up", wide, {16, 8}, {layer});
    const ValueId down = linear(up, layer + ".down", shape, {8, 16}, {layer});
    h = b.op("aten::add", {h, down}, shape, {layer});
    b.named({"self", "other"});
  }
  b.output(linear(h, "head", wide, {16, 8}, {}));
  return b.graph;
}

Plan grouped_chain(const std::vector<std::string>& begins) {
  using sharding::Layout;
  Plan plan = export_chain(begins);
  plan.tensor_parallel = 2;
  plan.sharding.parameters = {{"words.weight", Layout::split(0)},
                              {"*.up.weight", Layout::split(0)},
                              {"*.down.weight", Layout::split(1)},
                              {"head.weight", Layout::split(0)}};
  plan.sharding.values = {{"layers.?", Layout::split(1)}};
  return plan;
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
