// The reader and the cuts on models that torch exported, and weights against what torch reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "graph/cuts.hpp"
#include "graph/error.hpp"
#include "graph/facts.hpp"
#include "graph/file.hpp"
#include "graph/flops.hpp"
#include "graph/pt2.hpp"
#include "graph/slice.hpp"
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

TEST(Models, AMetaExportHasShapesButNoWeights) {
  PENSTOCK_MODEL(path, "transformer-meta");
  const Graph graph = read_pt2(path);
  for (const StoredTensor& stored : graph.tensors) EXPECT_EQ(stored.file, "");
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

TEST(Models, WhatIsNotFunctionalIsRefusedByName) {
  PENSTOCK_MODEL(mutating, "mutating-foreign");
  EXPECT_THAT(
      [&] { read_pt2(mutating); },
      ThrowsMessage<InputError>(AllOf(HasSubstr("aten::add_"), HasSubstr("export_model.py"))));
  PENSTOCK_MODEL(autocast, "autocast-foreign");
  EXPECT_THAT([&] { read_pt2(autocast); },
              ThrowsMessage<InputError>(HasSubstr("wrap_with_autocast")));
}

/// What must hold for any model.
class EveryModel : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryModel, IsConsistent) {
  PENSTOCK_MODEL(path, GetParam());
  const Graph graph = read_pt2(path);
  std::set<std::string> values, operators;
  for (const Value& value : graph.values)
    EXPECT_TRUE(values.insert(value.name).second) << value.name;
  for (OperatorId id = 0; id < static_cast<OperatorId>(graph.operators.size()); ++id) {
    const Operator& op = graph.operators[static_cast<size_t>(id)];
    EXPECT_TRUE(operators.insert(op.name).second) << op.name;
    EXPECT_EQ(begin_position(graph, begin_name(graph, id), ""), id);
    for (const ValueId read : op.reads())
      EXPECT_LT(graph.values[static_cast<size_t>(read)].producer, id);
    for (const ValueId output : op.outputs)
      EXPECT_TRUE(output < 0 || graph.values[static_cast<size_t>(output)].producer == id);
    EXPECT_GE(forward_flops(graph, op, graph.example_batch), 0);
  }
  EXPECT_THAT(graph.outputs, Not(IsEmpty()));
}

TEST_P(EveryModel, HasUnitsThatCoverIt) {
  PENSTOCK_MODEL(path, GetParam());
  const Graph graph = read_pt2(path);
  OperatorId expected = 0;
  for (const Unit& unit : units(graph, analyse(graph))) {
    EXPECT_EQ(unit.begin, expected);
    EXPECT_LT(unit.begin, unit.end);
    EXPECT_EQ(begin_position(graph, unit.label, ""), unit.begin);
    expected = unit.end;
  }
  EXPECT_EQ(expected, static_cast<OperatorId>(graph.operators.size()));
}

TEST_P(EveryModel, SendsItsCutValuesBetweenTwoStages) {
  PENSTOCK_MODEL(path, GetParam());
  const Graph graph = read_pt2(path);
  const Analysis analysis = analyse(graph);
  const auto bytes = cut_bytes(graph, analysis, graph.example_batch);
  for (const Unit& unit : units(graph, analysis)) {
    if (unit.begin == 0) continue;
    const auto stages = interval_stages(graph, {0, unit.begin});
    const Slicing slicing = slice(graph, analysis, stages, 2);
    int64_t sent = 0;
    for (const StageEdge& edge : slicing.edges)
      for (const Crossing& crossing : edge.values)
        sent += graph.values[static_cast<size_t>(crossing.value)].bytes(graph.example_batch);
    EXPECT_EQ(sent, bytes[static_cast<size_t>(unit.begin)]) << unit.label;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryModel,
                         ::testing::Values("transformer-f32", "transformer-dropout",
                                           "transformer-text-dropout", "transformer-meta",
                                           "transformer-static", "pippy", "iterative",
                                           "image_classifier", "everything", "lstm", "parameters",
                                           "unet", "outputs", "nested", "nested-foreign", "gpt2",
                                           "llama", "bert", "t5", "moe", "resnet", "vit"));

/// A .safetensors file: 8 bytes of header length, a JSON header, the values.
std::map<std::string, std::string> safetensors(const std::string& path) {
  const std::string content = read_file(path);
  uint64_t length = 0;
  std::memcpy(&length, content.data(), sizeof length);
  const auto header = nlohmann::json::parse(content.substr(8, length));
  std::map<std::string, std::string> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto span = entry.at("data_offsets").get<std::vector<size_t>>();
    tensors[name] = content.substr(8 + length + span.at(0), span.at(1) - span.at(0));
  }
  return tensors;
}

class Weights : public ::testing::TestWithParam<const char*> {};

TEST_P(Weights, EqualWhatTorchReads) {
  PENSTOCK_MODEL(path, GetParam());
  const Graph graph = read_pt2(path);
  const WeightFile weights(path);
  const auto names = graph.tensor_by_name();
  int compared = 0;
  for (const auto& [name, expected] :
       safetensors(path.substr(0, path.size() - 4) + ".safetensors")) {
    const StoredTensor& stored = tensor(graph, name);
    std::string values(static_cast<size_t>(stored.bytes()), '\0');
    weights.read(stored, std::as_writable_bytes(std::span(values)));
    EXPECT_TRUE(values == expected) << name;
    ++compared;
  }
  EXPECT_GT(compared, 10);
}

INSTANTIATE_TEST_SUITE_P(All, Weights,
                         ::testing::Values("unet", "parameters", "everything", "transformer-f64"));

}  // namespace
}  // namespace penstock
