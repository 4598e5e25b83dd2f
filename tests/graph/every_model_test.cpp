// Properties of every exported model, and weights compared with what torch reads.
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
#include "graph/operators/table.hpp"
#include "graph/pt2/pt2.hpp"
#include "tests/models/models.hpp"

namespace penstock {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

/// Properties of any model.
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

TEST_P(EveryModel, HasOperatorsOfTheTable) {
  PENSTOCK_MODEL(path, GetParam());
  for (const Operator& op : read_pt2(path).operators) {
    const std::string_view target = op.target;
    ASSERT_TRUE(target.starts_with("aten::")) << target;
    EXPECT_NE(find_traits(target.substr(6)), nullptr) << target;
  }
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
                                           "unet", "outputs", "nested", "nested-foreign",
                                           "autocast-foreign", "mutating-foreign", "gpt2", "llama",
                                           "bert", "t5", "moe", "resnet", "vit"));

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
    const StoredTensor& stored =
        graph.tensors.at(static_cast<size_t>(graph.tensor_by_name().at(name)));
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
