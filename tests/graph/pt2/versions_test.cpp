// Files that other versions of torch wrote of one network (versions/model.py): what is read of them
// is the same model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/operators/facts.hpp"
#include "graph/pt2/pt2.hpp"

namespace penstock {
namespace {

using ::testing::ElementsAre;

class Versions : public ::testing::TestWithParam<const char*> {
 protected:
  std::string path = std::string(PENSTOCK_TEST_VERSIONS "/torch-") + GetParam() + ".pt2";
  Graph graph = read_pt2(path);
};

TEST_P(Versions, HaveTheOperatorsOfTheNetwork) {
  std::vector<std::string> targets;
  for (const Operator& op : graph.operators) {
    if (op.target == "aten::detach") continue;  // torch 2.9 writes three where later ones write one
    std::string text = full_name(op).substr(6);
    if (!op.modules.empty()) text += " " + op.modules.back();
    targets.push_back(text);
  }
  EXPECT_THAT(targets, ElementsAre("embedding embedding", "abs", "amax", "add.Tensor",
                                   "add.Tensor norm", "_native_batch_norm_legit_functional norm",
                                   "div.Tensor", "linear project", "split.Tensor", "slice.Tensor",
                                   "unsqueeze", "slice.Tensor", "unsqueeze", "slice.Tensor",
                                   "unsqueeze", "scaled_dot_product_attention", "view", "view",
                                   "native_dropout", "add.Tensor", "linear head"));
}

TEST_P(Versions, HaveItsTiedWeightsBuffersAndBatch) {
  ASSERT_EQ(graph.inputs.size(), 1u);
  EXPECT_EQ(graph.values[static_cast<size_t>(graph.inputs[0])].name, "tokens");
  EXPECT_TRUE(graph.dynamic_batch);
  EXPECT_EQ(graph.example_batch, 4);
  EXPECT_EQ(graph.batch_coupled, true);
  std::vector<std::string> parameters, updated;
  for (const StoredTensor& tensor : graph.tensors)
    if (tensor.requires_grad) parameters.push_back(tensor.name);
  std::ranges::sort(parameters);
  EXPECT_THAT(parameters, ElementsAre("embedding.weight", "norm.bias", "norm.weight",
                                      "project.bias", "project.weight"));
  const auto names = graph.tensor_by_name();
  EXPECT_EQ(names.at("head.weight"), names.at("embedding.weight"));
  for (const BufferUpdate& update : graph.updates)
    updated.push_back(graph.tensors[static_cast<size_t>(update.tensor)].name);
  std::ranges::sort(updated);
  EXPECT_THAT(updated,
              ElementsAre("norm.num_batches_tracked", "norm.running_mean", "norm.running_var"));
  ASSERT_EQ(graph.outputs.size(), 1u);
  EXPECT_EQ(graph.outputs[0].name, "output");
}

/// A seed gives the same weights in every version.
TEST_P(Versions, HaveTheSameWeights) {
  const std::string other_path = PENSTOCK_TEST_VERSIONS "/torch-2.15.0.pt2";
  const Graph other = read_pt2(other_path);
  const auto names = other.tensor_by_name();
  const WeightFile weights(path), expected(other_path);
  for (const StoredTensor& tensor : graph.tensors) {
    const StoredTensor& same = other.tensors[static_cast<size_t>(names.at(tensor.name))];
    std::vector<std::byte> here(static_cast<size_t>(tensor.bytes())), there(here.size());
    weights.read(tensor, here);
    expected.read(same, there);
    EXPECT_EQ(here, there) << tensor.name;
  }
  EXPECT_EQ(graph.tensors.size(), other.tensors.size());
}

INSTANTIATE_TEST_SUITE_P(Torch, Versions, ::testing::Values("2.9.1", "2.10.0", "2.15.0"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace penstock
