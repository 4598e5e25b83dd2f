// Files written by hand that the reader refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "graph/operators/facts.hpp"
#include "graph/pt2/pt2.hpp"
#include "tests/graph/pt2/pt2_file.hpp"

namespace penstock {
namespace {

using testing::argument_json;
using testing::batch_size;
using ::testing::HasSubstr;
using testing::Json;
using testing::named;
using testing::node;
using testing::Pt2;
using testing::tensor_meta;
using ::testing::ThrowsMessage;

void expect_refusal(const Pt2& file, const std::string& reason) {
  EXPECT_THAT([&] { file.read(); },
              ThrowsMessage<InputError>(AllOf(HasSubstr(".pt2: "), HasSubstr(reason))));
}

TEST(Pt2, TakesTheMinorVersionsThatAreKnownAndRefusesOthers) {
  Pt2 file;
  for (const int minor : {14, 15, 17, 20}) {
    file.model["schema_version"]["minor"] = minor;
    EXPECT_EQ(file.read().operators.size(), 2u) << minor;
  }
  for (const int minor : {13, 21}) {
    file.model["schema_version"]["minor"] = minor;
    expect_refusal(file, "has schema version 8." + std::to_string(minor));
  }
}

TEST(Pt2, RefusesOtherVersionsAndByteOrders) {
  Pt2 newer;
  newer.model["schema_version"]["major"] = 9;
  expect_refusal(newer, "schema version 9.17, Penstock reads 8.14 to 8.20 (torch 2.9 to 2.15)");
  Pt2 older;
  older.model.erase("schema_version");
  expect_refusal(older, "not what torch.export writes");
  Pt2 two;
  two.members["m/models/other.json"] = "{}";
  expect_refusal(two, "2 models");
}

TEST(Pt2, RefusesOperatorsThatWriteToTheirInputs) {
  Pt2 file;
  file.add_operator("torch.ops.aten.resize_.default", {argument_json("self", named("mul"))});
  expect_refusal(file, "operator aten::resize_ (extra) in body@1 writes to its input");
  Pt2 input;
  input.signature()["output_specs"].push_back(
      {{"user_input_mutation", {{"arg", {{"name", "mul"}}}, {"user_input_name", "x"}}}});
  expect_refusal(input, "writes to its input 'x'");
}

TEST(Pt2, RefusesStatesOfAnLstmWithADimensionTooManyWhereTheyAreUsed) {
  Pt2 file;
  Json& graph = file.graph();
  for (const char* name : {"y", "h", "c"})
    graph["tensor_values"][name] = tensor_meta({1, 1, batch_size(), 3}, {3, 3, 3, 1});
  graph["nodes"].push_back(node("torch.ops.aten.lstm.input", {argument_json("input", named("x"))},
                                {named("y"), named("h"), named("c")}));
  EXPECT_EQ(file.read().operators.size(), 3u);
  graph["nodes"].push_back(
      node("torch.ops.aten.relu.default", {argument_json("self", named("c"))}, {named("r")}));
  graph["tensor_values"]["r"] = tensor_meta({1, 1, batch_size(), 3}, {3, 3, 3, 1});
  expect_refusal(file, "wrote `c` with 4 dimensions, but it has 3");
}

TEST(Pt2, RefusesSizesThatDependOnData) {
  Pt2 table;
  table.graph()["sym_int_values"]["n"] = {
      {"as_expr", {{"expr_str", "Symbol('u0', integer=True)"}, {"hint", nullptr}}}};
  table.add_operator("torch.ops.aten.custom.default",
                     {argument_json("size", {{"as_sym_int", {{"as_name", "n"}}}})});
  expect_refusal(table, "u0");
  Pt2 found;
  found.graph()["tensor_values"]["found"] = tensor_meta(
      {{{"as_expr", {{"expr_str", "Symbol('u0', integer=True)"}, {"hint", nullptr}}}}}, {1});
  Json nonzero =
      node("torch.ops.aten.nonzero.default", {argument_json("self", named("x"))}, {named("found")});
  nonzero["name"] = "found";
  found.graph()["nodes"].push_back(nonzero);
  expect_refusal(found, "operator torch.ops.aten.nonzero.default (found): ");
  expect_refusal(found, "It is computed from a tensor's values");
  Pt2 item;
  item.graph()["nodes"].push_back(node("torch.ops.aten.item.default",
                                       {argument_json("self", named("x"))},
                                       {{{"as_sym_int", {{"as_name", "n"}}}}}));
  expect_refusal(item, "torch.ops.aten.item.default");
}

TEST(Pt2, RefusesASecondOpenSize) {
  Pt2 file;
  const Json other = {
      {"as_expr", {{"expr_str", "Symbol('s1', integer=True)"}, {"hint", {{"as_int", 3}}}}}};
  file.graph()["tensor_values"]["x"] = tensor_meta({batch_size(), other}, {3, 1});
  expect_refusal(file, "open size s1 in dimension 1");
  Pt2 inputs;
  inputs.graph()["tensor_values"]["y"] = tensor_meta({3, 3}, {3, 1});
  inputs.signature()["input_specs"].push_back({{"user_input", {{"arg", named("y")}}}});
  expect_refusal(inputs, "no batch dimension");
}

TEST(Pt2, RefusesWhatContradictsItself) {
  Pt2 unknown;
  unknown.add_operator("torch.ops.aten.relu.default", {argument_json("self", named("nowhere"))});
  expect_refusal(unknown, "'nowhere' is read before it is computed");
  Pt2 undescribed;
  undescribed.graph()["tensor_values"].erase("p_w");
  expect_refusal(undescribed, "the input 'p_w' is not described");
  Pt2 fraction;
  for (const Json& size : {Json{{"as_int", -3}}, Json{{"as_float", 2.5}}}) {
    Pt2 impossible;
    impossible.graph()["tensor_values"]["mul"]["sizes"][1] = size;
    expect_refusal(impossible, "value 'mul' has a dimension of ");
  }
  fraction.graph()["tensor_values"]["mul"]["sizes"][1] = {{"as_int", 1e300}};
  expect_refusal(fraction, "not what torch.export writes");
  Pt2 twice;
  twice.graph()["nodes"].push_back(twice.graph()["nodes"][0]);
  expect_refusal(twice, "'relu' is computed twice");
  Pt2 hint;
  hint.graph()["tensor_values"]["mul"]["sizes"][1] = {
      {"as_expr",
       {{"expr_str", "Mul(Integer(2), Symbol('s0', integer=True))"}, {"hint", {{"as_int", 9}}}}}};
  expect_refusal(hint, "does not agree with its batch");
  Pt2 sparse;
  sparse.graph()["tensor_values"]["mul"]["layout"] = 1;
  expect_refusal(sparse, "'mul' is sparse");
  Pt2 typed;
  typed.graph()["tensor_values"]["mul"]["dtype"] = 77;
  expect_refusal(typed, "element type");
}

TEST(Pt2, RefusesTheKindsThatNoOperatorOfPyTorchHasByOperatorAndKind) {
  const Json int_lists = {{1, 2}, {3}}, float_lists = {{0.5}};
  const std::map<std::string, Json> kinds = {
      {"as_custom_obj", {{"name", "o"}, {"class_fqn", "my.Class"}}},
      {"as_operator", "torch.ops.aten.relu.default"},
      {"as_graph", {{"name", "g"}, {"graph", Json::object()}}},
      {"as_nested_tensors", {{{{"name", "x"}}}}},
      {"as_int_lists", int_lists},
      {"as_float_lists", float_lists},
      {"as_string_to_argument", {{"key", {{"as_int", 1}}}}},
      {"as_something_new", 1}};
  for (const auto& [kind, value] : kinds) {
    Pt2 file;
    Json bad = node("torch.ops.aten.custom.default", {argument_json("a", {{kind, value}})},
                    {named("extra")});
    bad["name"] = "extra";
    file.graph()["nodes"].push_back(bad);
    expect_refusal(file, "operator torch.ops.aten.custom.default (extra): an argument of kind '" +
                             kind + "' is not taken");
  }
}

TEST(Pt2, RefusesOperatorsOutsideTheDispatcher) {
  Pt2 conditional;
  conditional.add_operator("torch.ops.higher_order.cond", {argument_json("", named("mul"))});
  expect_refusal(conditional, "operator cond");
  Pt2 python;
  python.add_operator("math.frobnicate", {argument_json("", named("mul"))});
  expect_refusal(python, "math.frobnicate");
  Pt2 custom;
  custom.add_operator("torch.ops.mylib.gelu2.default", {argument_json("x", named("mul"))});
  expect_refusal(custom, "operator mylib::gelu2 (extra) is a custom operator");
  expect_refusal(custom, "--decompose");
}

TEST(Pt2, RefusesOutputsOfAJointGraph) {
  Pt2 joint;
  joint.signature()["output_specs"].push_back(
      {{"gradient_to_parameter", {{"arg", {{"name", "mul"}}}, {"parameter_name", "w"}}}});
  expect_refusal(joint, "gradient_to_parameter");
  Pt2 token;
  token.signature()["input_specs"].push_back({{"token", {{"arg", {{"name", "t"}}}}}});
  expect_refusal(token, "'token'");
}

}  // namespace
}  // namespace penstock
