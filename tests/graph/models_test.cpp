// The reader and the cuts on models that torch exported, and weights against what torch reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "base/file.hpp"
#include "graph/cuts/cuts.hpp"
#include "graph/cuts/slice.hpp"
#include "graph/operators/facts.hpp"
#include "graph/operators/flops.hpp"
#include "graph/pt2/pt2.hpp"
#include "tests/models/models.hpp"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;

const StoredTensor& tensor(const Graph& graph, const std::string& name) {
  return graph.tensors.at(static_cast<size_t>(graph.tensor_by_name().at(name)));
}

const Operator& operator_of(const Graph& graph, const std::string& target) {
  return *std::ranges::find(graph.operators, target, &Operator::target);
}

TEST(Models, PippyIsSevenOperatorsInFourModules) {
  PENSTOCK_MODEL(path, "pippy");
  const Graph graph = read_pt2(path);
  std::vector<std::string> text;
  for (const Operator& op : graph.operators) text.push_back(op.target + " " + op.modules.front());
  EXPECT_THAT(text, ElementsAre("aten::linear layer0", "aten::relu layer0", "aten::linear layer1",
                                "aten::relu layer1", "aten::linear layer2", "aten::relu layer2",
                                "aten::linear output_proj"));
  EXPECT_EQ(forward_flops(graph, graph.operators[2], 32), 32.0 * 1024 * (2 * 512 + 1));
  EXPECT_THAT(split_positions(graph, "layer0:end"), ElementsAre(2));
  EXPECT_THAT(split_positions(graph, "layer1:end"), ElementsAre(4));
  EXPECT_EQ(graph.sha256, sha256_of_file(path));
  EXPECT_EQ(graph.batch_coupled, false);
}

TEST(Models, EveryCallOfTheIterativeBlockIsASplitPoint) {
  PENSTOCK_MODEL(path, "iterative");
  const Graph graph = read_pt2(path);
  EXPECT_THAT(split_positions(graph, "iter_block:end"), ElementsAre(2, 4, 6));
  EXPECT_THAT(split_positions(graph, "iter_block@1:end"), ElementsAre(4));
  EXPECT_EQ(begin_name(graph, 4), "iter_block@2");
  const Slicing slicing = slice(graph, analyse(graph), interval_stages(graph, {0, 2, 4, 6}), 4);
  ASSERT_EQ(slicing.shared.size(), 2u);  // weight and bias of the block
  EXPECT_THAT(slicing.shared[0].stages, ElementsAre(0, 1, 2));
}

TEST(Models, TheTransformerIsCutAfterItsThirdLayer) {
  PENSTOCK_MODEL(path, "transformer-f32");
  const Graph graph = read_pt2(path);
  const auto positions = split_positions(graph, "layers.2:end");
  ASSERT_EQ(positions.size(), 1u);
  EXPECT_EQ(begin_name(graph, positions[0]), "layers.3");
  const Analysis analysis = analyse(graph);
  const auto values = values_at_cut(graph, analysis, positions[0]);
  ASSERT_EQ(values.size(), 1u);
  EXPECT_EQ(graph.values[static_cast<size_t>(values[0])].bytes(4), 4 * 16 * 32 * 4);
  EXPECT_EQ(graph.batch_coupled, true);
  EXPECT_THAT(dominator_cuts(graph, analysis), ::testing::Contains(positions[0]));
}

TEST(Models, MasksAreConstantsThatNoStageSends) {
  PENSTOCK_MODEL(path, "everything");
  const Graph graph = read_pt2(path);
  const Analysis analysis = analyse(graph);
  const auto position = begin_position(graph, "block.layer.multihead_attn", "");
  const Slicing slicing = slice(graph, analysis, interval_stages(graph, {0, position}), 2);
  const auto masks = [&](const StageSlice& stage) {
    return std::ranges::count_if(stage.operators, [&](OperatorId id) {
      return graph.operators[static_cast<size_t>(id)].target == "aten::triu";
    });
  };
  EXPECT_EQ(masks(slicing.stages[0]), 1);  // the first call's
  EXPECT_EQ(masks(slicing.stages[1]), 1);  // the second call's, not the first's
  for (const ValueId value : values_at_cut(graph, analysis, position))
    EXPECT_FALSE(analysis.constant[static_cast<size_t>(value)]);
}

TEST(Models, TiesUpdatesAndRepeatedCalls) {
  PENSTOCK_MODEL(path, "everything");
  const Graph graph = read_pt2(path);
  EXPECT_THAT(tensor(graph, "emb.weight").aliases, ElementsAre("head.weight"));
  EXPECT_EQ(tensor(graph, "head.weight").name, "emb.weight");
  EXPECT_FALSE(tensor(graph, "block.ids").persistent);
  std::set<std::string> updated;
  for (const BufferUpdate& update : graph.updates)
    updated.insert(graph.tensors[static_cast<size_t>(update.tensor)].name);
  EXPECT_THAT(updated, ElementsAre("block.bn.num_batches_tracked", "block.bn.running_mean",
                                   "block.bn.running_var"));
  EXPECT_GT(begin_position(graph, "block@1", ""), begin_position(graph, "block", ""));
}

TEST(Models, TiedEmbeddingsOfKnownModelsStayTied) {
  const std::tuple<const char*, const char*, std::vector<std::string>> tied[] = {
      {"gpt2", "transformer.wte.weight", {"lm_head.weight"}},
      {"bert", "bert.embeddings.word_embeddings.weight", {"cls.predictions.decoder.weight"}},
      {"t5",
       "shared.weight",
       {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"}}};
  for (const auto& [model, first, others] : tied) {
    PENSTOCK_MODEL(path, model);
    const Graph graph = read_pt2(path);
    EXPECT_THAT(tensor(graph, first).aliases, ::testing::UnorderedElementsAreArray(others))
        << model;
  }
}

TEST(Models, BatchNormThatIsCalledTwiceIsNotCutBetweenItsCalls) {
  PENSTOCK_MODEL(path, "everything");
  const Graph graph = read_pt2(path);
  const Analysis analysis = analyse(graph);
  const auto second = begin_position(graph, "block@1", "");
  EXPECT_FALSE(allowed_cuts(graph)[static_cast<size_t>(second)]);
  EXPECT_THAT(
      [&] {
        slice(graph, analysis, interval_stages(graph, {0, second}), 2);
      },
      ThrowsMessage<InputError>(HasSubstr("block.bn.")));
  EXPECT_TRUE(allowed_cuts(graph)[static_cast<size_t>(begin_position(graph, "norm", ""))]);
}

TEST(Models, ASkipConnectionAndATiedWeightReachTheLastStage) {
  PENSTOCK_MODEL(path, "everything");
  const Graph graph = read_pt2(path);
  const std::vector<OperatorId> begins = {0, begin_position(graph, "block.layer.linear1", ""),
                                          begin_position(graph, "norm", "") - 1};  // the addition
  const Slicing slicing = slice(graph, analyse(graph), interval_stages(graph, begins), 3);
  ASSERT_EQ(slicing.edges.size(), 3u);
  EXPECT_EQ(slicing.edges[1].producer, 0);
  EXPECT_EQ(slicing.edges[1].consumer, 2);
  ASSERT_EQ(slicing.edges[1].values.size(), 1u);
  EXPECT_EQ(graph.values[static_cast<size_t>(slicing.edges[1].values[0].value)].name, "embedding");
  const int weight = graph.tensor_by_name().at("emb.weight");
  const auto shared = std::ranges::find(slicing.shared, weight, &Slicing::Shared::tensor);
  ASSERT_NE(shared, slicing.shared.end());
  EXPECT_THAT(shared->stages, ElementsAre(0, 2));
}

TEST(Models, DropoutIsRandomAndHasItsUnusedMask) {
  PENSTOCK_MODEL(path, "transformer-dropout");
  const Graph graph = read_pt2(path);
  const Operator dropout = operator_of(graph, "aten::native_dropout");
  EXPECT_TRUE(is_random(dropout));
  EXPECT_EQ(dropout.outputs.size(), 2u);
}

TEST(Models, DerivedParametersAndFrozenOnes) {
  PENSTOCK_MODEL(path, "parameters");
  const Graph graph = read_pt2(path);
  const Analysis analysis = analyse(graph);
  const auto output = [&](const char* target) {
    return static_cast<size_t>(operator_of(graph, target).outputs.front());
  };
  for (const char* target : {"aten::_weight_norm", "aten::_to_copy", "aten::t", "aten::expand"}) {
    EXPECT_TRUE(analysis.parameter_derived[output(target)]) << target;
    EXPECT_TRUE(analysis.requires_grad[output(target)]) << target;
  }
  EXPECT_FALSE(tensor(graph, "frozen").requires_grad);
  EXPECT_THAT(tensor(graph, "pair_a").aliases, IsEmpty());
  EXPECT_EQ(tensor(graph, "pair_a").file, tensor(graph, "pair_b").file);
}

TEST(Models, OutputsOfEveryKindAreNamed) {
  PENSTOCK_MODEL(path, "outputs");
  const Graph graph = read_pt2(path);
  std::vector<std::string> names;
  for (const Output& output : graph.outputs) names.push_back(output.name);
  EXPECT_THAT(names,
              ElementsAre("loss", "hidden", "target", "weight", "count", "width", "nothing"));
  EXPECT_EQ(std::get<Expression>(graph.outputs[4].value).at(7), 21);
  EXPECT_EQ(std::get<int64_t>(graph.outputs[5].value), 5);
  EXPECT_TRUE(std::holds_alternative<None>(graph.outputs[6].value));
  EXPECT_EQ(graph.inputs.size(), 2u);
}

TEST(Models, AMetaExportHasShapesAndBuffersButNoWeights) {
  PENSTOCK_MODEL(path, "transformer-meta");
  const Graph graph = read_pt2(path);
  for (const StoredTensor& stored : graph.tensors)
    EXPECT_EQ(stored.file.empty(), stored.kind == StoredTensor::Kind::parameter) << stored.name;
  EXPECT_GT(graph.tensors.size(), 40u);
  EXPECT_FALSE(graph.batch_coupled.has_value());
}

TEST(Models, AMetaExportKeepsItsTies) {
  PENSTOCK_MODEL(path, "everything-meta");
  const Graph graph = read_pt2(path);
  EXPECT_EQ(tensor(graph, "head.weight").name, "emb.weight");
  EXPECT_THAT(tensor(graph, "block.layer.norm1.weight").aliases, IsEmpty());
}

TEST(Models, AStaticExportHasOneBatch) {
  PENSTOCK_MODEL(path, "transformer-static");
  const Graph graph = read_pt2(path);
  EXPECT_FALSE(graph.dynamic_batch);
  EXPECT_EQ(graph.min_batch, 4);
  EXPECT_EQ(graph.max_batch, 4);
}

TEST(Models, NestedGraphsArePutInPlace) {
  PENSTOCK_MODEL(path, "nested-foreign");
  const Graph graph = read_pt2(path);
  EXPECT_EQ(std::ranges::count(graph.operators, false, &Operator::grad_enabled), 8);
  const Analysis analysis = analyse(graph);
  const Operator division = operator_of(graph, "aten::div");  // (h - shift) / scale
  const auto reads = division.reads();
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_TRUE(analysis.requires_grad[static_cast<size_t>(reads[0])]);
  EXPECT_FALSE(analysis.requires_grad[static_cast<size_t>(reads[1])]);  // from inside the region
  EXPECT_FALSE(
      graph.operators[static_cast<size_t>(graph.values[static_cast<size_t>(reads[1])].producer)]
          .grad_enabled);
}

/// Blocks of linear, relu, linear, add: one, then twice another one with a marker inside.
TEST(Models, PipeSplitsAreKnownWhoeverExportedThem) {
  for (const char* name : {"markers-f64", "markers-foreign"}) {
    PENSTOCK_MODEL(path, name);
    const Graph graph = read_pt2(path);
    EXPECT_EQ(graph.operators.size(), 13u) << name;
    EXPECT_THAT(graph.markers, ElementsAre(4, 6, 10)) << name;
    EXPECT_EQ(begin_name(graph, 4), "twice") << name;
    EXPECT_EQ(begin_name(graph, 10), "twice.down@1") << name;
  }
}

TEST(Models, WhatIsNotFunctionalIsReadAsIfItWere) {
  PENSTOCK_MODEL(path, "mutating-foreign");
  const Graph graph = read_pt2(path);
  EXPECT_EQ(std::ranges::count_if(graph.operators, is_mutating), 0);
  ASSERT_EQ(graph.updates.size(), 1u);
  EXPECT_EQ(graph.tensors[static_cast<size_t>(graph.updates[0].tensor)].name, "calls");
  EXPECT_EQ(operator_of(graph, "aten::relu").name, "relu_");
}

TEST(Models, OperatorsKnowTheirRegionOfAutocast) {
  PENSTOCK_MODEL(path, "autocast-foreign");
  const Graph graph = read_pt2(path);
  std::vector<std::string> inside;
  for (const Operator& op : graph.operators) {
    if (!op.autocast) continue;
    EXPECT_EQ(op.autocast->device, "cpu");
    EXPECT_EQ(op.autocast->dtype, DType::bfloat16);
    inside.push_back(op.target);
  }
  EXPECT_THAT(inside, ElementsAre("aten::linear"));
}

}  // namespace
}  // namespace penstock
