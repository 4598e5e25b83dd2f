// Exported models, split in every even way, equal the unsplit graph under LibTorch's own autograd.
#include <gtest/gtest.h>

#include "backend/operators/dtype.hpp"
#include "graph/cuts/cuts.hpp"
#include "graph/pt2/pt2.hpp"
#include "tests/backend/stage/driver.hpp"
#include "tests/backend/stage/graph_builder.hpp"
#include "tests/models/models.hpp"

namespace penstock::test {
namespace {

struct Case {
  const char* model;
  Loss loss;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.model; }

std::map<int, at::Tensor> load(const Graph& graph) {
  std::set<int> all;
  for (size_t k = 0; k < graph.tensors.size(); ++k) all.insert(static_cast<int>(k));
  TensorStore store(graph, all);
  std::map<int, at::Tensor> tensors;
  for (const int index : all) tensors[index] = store.tensor(index);
  return tensors;
}

std::vector<int64_t> shape(const Value& value, int64_t batch) {
  std::vector<int64_t> sizes;
  for (const Expression& size : value.shape) sizes.push_back(size.at(batch));
  return sizes;
}

/// Every vocabulary and number of classes in the test models is at least 4.
at::Tensor made_up(const Value& value, int64_t batch, const std::string& name) {
  const std::vector<int64_t> sizes = shape(value, batch);
  if (is_floating(value.dtype)) return numbers(name, sizes, scalar_type(value.dtype));
  return numbers(name, sizes).mul(8).abs().to(scalar_type(value.dtype)).clamp(0, 3);
}

Batch made_up(const Graph& graph, Loss loss, int microbatches) {
  Batch batch{.size = graph.example_batch};
  const auto first = std::get<TensorRef>(graph.outputs[0].value).value;
  const Value& output = graph.values[static_cast<size_t>(first)];
  Value target = output;
  if (loss == Loss::cross_entropy) {
    target.dtype = DType::int64;
    target.shape.pop_back();
  }
  for (int m = 0; m < microbatches; ++m) {
    const std::string name = std::to_string(m);
    Values& inputs = batch.inputs.emplace_back();
    for (const ValueId id : graph.inputs) {
      const Value& value = graph.values[static_cast<size_t>(id)];
      inputs[id] = made_up(value, batch.size, value.name + name);
    }
    batch.targets.push_back(made_up(target, batch.size, "target" + name));
  }
  return batch;
}

class Models : public ::testing::TestWithParam<Case> {};

TEST_P(Models, StagesEqualTheUnsplitGraph) {
  PENSTOCK_MODEL(path, GetParam().model);
  const Graph graph = read_pt2(path);
  const std::map<int, at::Tensor> tensors = load(graph);
  const Loss loss = GetParam().loss;
  const Batch batch = made_up(graph, loss, 2);
  const bool wide = std::string(GetParam().model).ends_with("-f64");
  const double tolerance = wide ? 1e-10 : 1e-5;  // as the project promises
  const StepOutcome expected = reference_step(graph, tensors, batch, loss);
  for (const int stages : {1, 2, 3, 4}) {
    SCOPED_TRACE(std::to_string(stages) + " stages");
    const std::vector<OperatorId> begins = even_begins(graph, stages);
    const StepOutcome whole = StageRow(graph, tensors, begins, loss).step(batch, Backward::whole);
    expect_close(whole, expected, tolerance, graph);
    const StepOutcome split = StageRow(graph, tensors, begins, loss).step(batch, Backward::split);
    expect_identical_gradients(split, whole, graph);
    for (const auto& [index, buffer] : whole.buffers) {
      EXPECT_TRUE(at::allclose(buffer, expected.buffers.at(index), tolerance, tolerance))
          << graph.tensors[static_cast<size_t>(index)].name;
    }
  }
}

/// Models small enough to try all splits.
class EveryCut : public Models {};

TEST_P(EveryCut, GivesTheGradientsOfTheUnsplitGraph) {
  PENSTOCK_MODEL(path, GetParam().model);
  const Graph graph = read_pt2(path);
  const std::map<int, at::Tensor> tensors = load(graph);
  const Loss loss = GetParam().loss;
  const Batch batch = made_up(graph, loss, 2);
  const double tolerance = std::string(GetParam().model).ends_with("-f64") ? 1e-10 : 1e-5;
  const StepOutcome expected = reference_step(graph, tensors, batch, loss);
  const std::vector<bool> allowed = allowed_cuts(graph);
  for (OperatorId cut = 1; cut < static_cast<OperatorId>(graph.operators.size()); ++cut) {
    if (!allowed[static_cast<size_t>(cut)]) continue;
    SCOPED_TRACE(begin_name(graph, cut));
    const StepOutcome whole = StageRow(graph, tensors, {0, cut}, loss).step(batch, Backward::whole);
    expect_close(whole, expected, tolerance, graph);
    for (const bool recompute : {false, true}) {
      StageRow row(graph, tensors, {0, cut}, loss, recompute);
      expect_identical_gradients(row.step(batch, Backward::split), whole, graph);
    }
  }
}

std::string model_name(const ::testing::TestParamInfo<Case>& tested) {
  std::string name = tested.param.model;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

constexpr Loss ce = Loss::cross_entropy;
INSTANTIATE_TEST_SUITE_P(
    Exported, Models,
    ::testing::Values(Case{"transformer-f32", ce}, Case{"transformer-f64", ce},
                      Case{"transformer-dropout", ce}, Case{"transformer-text", ce},
                      Case{"transformer-text-f64", ce}, Case{"transformer-text-dropout", ce},
                      Case{"transformer-static", ce}, Case{"pippy", ce}, Case{"pippy-f64", ce},
                      Case{"iterative", ce}, Case{"iterative-f64", ce},
                      Case{"image_classifier", ce}, Case{"image_classifier-f64", ce},
                      Case{"everything", ce}, Case{"everything-f64", ce}, Case{"lstm", ce},
                      Case{"lstm-f64", ce}, Case{"parameters", Loss::mse},
                      Case{"parameters-f64", Loss::mse}, Case{"unet", Loss::mse},
                      Case{"unet-f64", Loss::mse}, Case{"outputs", Loss::output},
                      Case{"gpt2-f64", ce}, Case{"llama", ce}, Case{"llama-f64", ce},
                      Case{"bert-f64", ce}, Case{"t5", ce}, Case{"t5-f64", ce}, Case{"moe-f64", ce},
                      Case{"resnet", ce}, Case{"resnet-f64", ce}, Case{"vit-f64", ce}),
    model_name);
INSTANTIATE_TEST_SUITE_P(Exported, EveryCut,
                         ::testing::Values(Case{"transformer-text-dropout", ce},
                                           Case{"gpt2-f64", ce}, Case{"llama-f64", ce},
                                           Case{"bert-f64", ce}, Case{"moe-f64", ce},
                                           Case{"unet-f64", Loss::mse}, Case{"resnet-f64", ce},
                                           Case{"vit-f64", ce}),
                         model_name);

}  // namespace
}  // namespace penstock::test
