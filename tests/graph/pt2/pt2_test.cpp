// The reader on files written by hand: every kind of argument, size and signature. Refusals are
// in refusal_test.cpp.
#include "graph/pt2/pt2.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "graph/operators/facts.hpp"
#include "tests/graph/pt2/pt2_file.hpp"

namespace penstock {
namespace {

using testing::argument_json;
using testing::batch_size;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Json;
using testing::named;
using testing::node;
using testing::Pt2;
using testing::tensor_meta;
using ::testing::ThrowsMessage;

/// The value of an argument of that JSON form, as the reader understands it.
ArgumentValue argument_of(Json value, Pt2 file = {}) {
  file.add_operator("torch.ops.aten.custom.default", {argument_json("self", named("mul")),
                                                      argument_json("value", std::move(value))});
  const Graph graph = file.read();
  return *argument(graph.operators.back(), "value");
}

TEST(Pt2, ReadsOperatorsValuesAndModules) {
  const Graph graph = Pt2().read();
  ASSERT_EQ(graph.operators.size(), 2u);
  const Operator& mul = graph.operators[1];
  EXPECT_EQ(full_name(mul), "aten::mul.Tensor");
  EXPECT_EQ(mul.name, "mul");
  EXPECT_THAT(mul.modules, ElementsAre("body@1"));
  EXPECT_EQ(mul.arguments[1].name, "other");
  const Value& relu = graph.values[std::get<TensorRef>(mul.arguments[0].value).value];
  EXPECT_EQ(relu.name, "relu");
  EXPECT_EQ(relu.producer, 0);
  EXPECT_EQ(relu.bytes(5), 5 * 3 * 4);
  EXPECT_EQ(graph.inputs.size(), 1u);
  ASSERT_EQ(graph.outputs.size(), 1u);
  EXPECT_EQ(graph.outputs[0].name, "output");
}

TEST(Pt2, ReadsTheBatchAndItsRange) {
  const Graph graph = Pt2().read();
  EXPECT_TRUE(graph.dynamic_batch);
  EXPECT_EQ(graph.example_batch, 4);
  EXPECT_EQ(graph.min_batch, 2);
  EXPECT_EQ(graph.max_batch, 64);
  Pt2 open;
  open.model["range_constraints"]["s0"]["max_val"] = nullptr;
  EXPECT_EQ(open.read().max_batch, INT64_MAX);
}

TEST(Pt2, AStaticBatchIsTheOnlyOne) {
  Pt2 file;
  for (const char* name : {"x", "relu", "mul"})
    file.graph()["tensor_values"][name] = tensor_meta({6, 3}, {3, 1});
  const Graph graph = file.read();
  EXPECT_FALSE(graph.dynamic_batch);
  EXPECT_EQ(graph.example_batch, 6);
  EXPECT_EQ(graph.min_batch, 6);
  EXPECT_EQ(graph.max_batch, 6);
}

TEST(Pt2, NumbersOfEveryKind) {
  EXPECT_EQ(std::get<int64_t>(argument_of({{"as_int", INT64_MAX}})), INT64_MAX);
  EXPECT_EQ(std::get<double>(argument_of({{"as_float", 0.5}})), 0.5);
  EXPECT_EQ(std::get<double>(argument_of({{"as_float", "-Infinity"}})), -INFINITY);
  EXPECT_EQ(std::get<double>(argument_of({{"as_float", "Infinity"}})), INFINITY);
  EXPECT_TRUE(std::isnan(std::get<double>(argument_of({{"as_float", "NaN"}}))));
  EXPECT_TRUE(std::get<bool>(argument_of({{"as_bool", true}})));
  EXPECT_EQ(
      std::get<std::complex<double>>(argument_of({{"as_complex", {{"real", 1.0}, {"imag", 2.0}}}})),
      std::complex<double>(1, 2));
}

TEST(Pt2, EnumsAreTheSchemasNotThoseOfC10) {
  EXPECT_EQ(std::get<DType>(argument_of({{"as_scalar_type", 13}})), DType::bfloat16);
  EXPECT_EQ(std::get<DType>(argument_of({{"as_scalar_type", 12}})), DType::boolean);
  EXPECT_EQ(std::get<MemoryFormat>(argument_of({{"as_memory_format", 2}})).schema_value, 2);
  EXPECT_EQ(std::get<Layout>(argument_of({{"as_layout", 7}})).schema_value, 7);
  EXPECT_EQ(
      std::get<Device>(argument_of({{"as_device", {{"type", "cpu"}, {"index", nullptr}}}})).type,
      "cpu");
}

TEST(Pt2, ListsOfEveryKind) {
  const auto ints = std::get<std::vector<Expression>>(argument_of({{"as_ints", {3, -1}}}));
  EXPECT_EQ(ints[1].at(1), -1);
  EXPECT_THAT(std::get<std::vector<double>>(argument_of({{"as_floats", {0.5, "Infinity"}}})),
              ElementsAre(0.5, INFINITY));
  EXPECT_THAT(std::get<std::vector<bool>>(argument_of({{"as_bools", {true, false}}})),
              ElementsAre(true, false));
  EXPECT_THAT(std::get<std::vector<std::string>>(argument_of({{"as_strings", {"a"}}})),
              ElementsAre("a"));
  EXPECT_EQ(std::get<std::string>(argument_of({{"as_string", "same"}})), "same");
  EXPECT_TRUE(std::holds_alternative<None>(argument_of({{"as_none", true}})));
}

TEST(Pt2, TensorsInListsMayBeAbsent) {
  const auto list = std::get<TensorList>(
      argument_of({{"as_optional_tensors", {{{"as_none", true}}, named("x")}}}));
  ASSERT_EQ(list.values.size(), 2u);
  EXPECT_FALSE(list.values[0]);
  EXPECT_TRUE(list.values[1]);
  const auto plain =
      std::get<TensorList>(argument_of({{"as_tensors", {{{"name", "x"}}, {{"name", "relu"}}}}}));
  EXPECT_EQ(plain.values.size(), 2u);
}

TEST(Pt2, SizesMixNumbersAndExpressions) {
  Pt2 file;
  file.graph()["sym_int_values"]["twice"] = {
      {"as_expr",
       {{"expr_str", "Mul(Integer(2), Symbol('s0', integer=True))"}, {"hint", {{"as_int", 8}}}}}};
  const auto sizes = std::get<std::vector<Expression>>(
      argument_of({{"as_sym_ints", {{{"as_name", "twice"}}, {{"as_int", 48}}}}}, file));
  EXPECT_EQ(sizes[0].at(3), 6);
  EXPECT_EQ(sizes[1].at(3), 48);
  EXPECT_EQ(std::get<Expression>(argument_of({{"as_sym_int", {{"as_name", "twice"}}}}, file)).at(5),
            10);
  EXPECT_EQ(std::get<int64_t>(argument_of({{"as_sym_int", {{"as_int", 9}}}}, file)), 9);
}

TEST(Pt2, SizeOperatorsVanish) {
  Pt2 file;
  Json& nodes = file.graph()["nodes"];
  const auto sized = [](const std::string& name) {
    return Json{{{"as_sym_int", {{"as_name", name}}}}};
  };
  // The exporter's table has none of them: the reader computes the expressions itself.
  nodes.push_back(node("torch.ops.aten.sym_size.int",
                       {argument_json("self", named("x")), argument_json("dim", {{"as_int", -2}})},
                       sized("n")));
  nodes.push_back(
      node("torch.ops.aten.sym_numel.default", {argument_json("self", named("x"))}, sized("all")));
  nodes.push_back(node("_operator.floordiv",
                       {argument_json("a", {{"as_sym_int", {{"as_name", "all"}}}}),
                        argument_json("b", {{"as_int", 2}})},
                       sized("half")));
  const auto value =
      argument_of({{"as_sym_ints", {{{"as_name", "n"}}, {{"as_name", "half"}}}}}, file);
  const auto& sizes = std::get<std::vector<Expression>>(value);
  EXPECT_EQ(sizes[0].at(5), 5);
  EXPECT_EQ(sizes[1].at(5), 7);  // 5*3 // 2
  EXPECT_EQ(file.read().operators.size(), 2u);
}

TEST(Pt2, AssertionsVanish) {
  Pt2 file;
  file.graph()["nodes"].push_back(node("torch.ops.aten._assert_tensor_metadata.default",
                                       {argument_json("a", named("x"))}, Json::array()));
  EXPECT_EQ(file.read().operators.size(), 2u);
}

TEST(Pt2, ResultsThatAreListsOrNoTensors) {
  Pt2 file;
  for (const char* name : {"first", "second"})
    file.graph()["tensor_values"][name] = tensor_meta({batch_size(), 1}, {1, 1});
  file.graph()["nodes"].push_back(
      node("torch.ops.aten.split.Tensor", {argument_json("self", named("x"))},
           {{{"as_tensors", {{{"name", "first"}}, {{"name", "second"}}}}}}));
  file.graph()["nodes"].push_back(node("torch.ops.aten.two.default",
                                       {argument_json("self", named("x"))},
                                       {named("unknown"), {{"as_none", true}}}));
  const Graph graph = file.read();
  EXPECT_TRUE(graph.operators[2].returns_list);
  EXPECT_EQ(graph.operators[2].outputs.size(), 2u);
  EXPECT_FALSE(graph.operators[3].returns_list);
  EXPECT_THAT(graph.operators[3].outputs, ElementsAre(-1, -1));
}

TEST(Pt2, BatchCouplingComesFromTheExporter) {
  Pt2 file;
  EXPECT_FALSE(file.read().batch_coupled.has_value());
  file.members["m/extra/penstock.json"] = R"({"batch_coupled": true})";
  EXPECT_EQ(file.read().batch_coupled, true);
  file.members["m/extra/penstock.json"] = R"({"batch_coupled": null})";
  EXPECT_FALSE(file.read().batch_coupled.has_value());
}

TEST(Pt2, EvaluationModeComesFromTheExporter) {
  Pt2 file;
  EXPECT_FALSE(file.read().evaluation.has_value());
  const std::string op = file.read().operators.front().name;
  file.members["m/extra/penstock.json"] =
      R"({"evaluation": {"arguments": {")" + op + R"(": {"train": false, "p": 0.0}}}})";
  const Graph graph = file.read();
  ASSERT_TRUE(graph.evaluation.has_value());
  ASSERT_EQ(graph.evaluation->changes.size(), 2u);
  EXPECT_EQ(graph.evaluation->changes[0].op, op);
  EXPECT_EQ(graph.evaluation->changes[0].argument.name, "p");
  EXPECT_EQ(std::get<bool>(graph.evaluation->changes[1].argument.value), false);
  EXPECT_EQ(graph.evaluation->differs, "");
  file.members["m/extra/penstock.json"] = R"({"evaluation": {"differs": "why"}})";
  EXPECT_EQ(file.read().evaluation->differs, "why");
  file.members["m/extra/penstock.json"] =
      R"({"evaluation": {"arguments": {"gone": {"train": false}}}})";
  EXPECT_THAT([&] { file.read(); }, ThrowsMessage<InputError>(HasSubstr("has no operator gone")));
}

TEST(Pt2, RefusesATruthValueThatDependsOnTheBatch) {
  EXPECT_TRUE(std::get<bool>(argument_of({{"as_sym_bool", {{"as_bool", true}}}})));
  EXPECT_THAT(std::get<std::vector<bool>>(
                  argument_of({{"as_sym_bools", {{{"as_bool", true}}, {{"as_bool", false}}}}})),
              ElementsAre(true, false));
  for (const char* kind : {"as_sym_bool", "as_sym_bools"}) {
    const Json named_truth = {{"as_name", "gt"}};
    const Json value =
        kind == std::string("as_sym_bool") ? named_truth : Json::array({named_truth});
    EXPECT_THAT(
        [&] {
          argument_of({{kind, value}});
        },
        ThrowsMessage<InputError>(HasSubstr("depends on the size of the batch")));
  }
}

TEST(Pt2, ReadsEveryElementTypeOfTheSchema) {
  const std::map<int, std::string> types = {{1, "uint8"},
                                            {2, "int8"},
                                            {3, "int16"},
                                            {4, "int32"},
                                            {5, "int64"},
                                            {6, "float16"},
                                            {7, "float32"},
                                            {8, "float64"},
                                            {9, "complex32"},
                                            {10, "complex64"},
                                            {11, "complex128"},
                                            {12, "bool"},
                                            {13, "bfloat16"},
                                            {28, "uint16"},
                                            {29, "float8_e4m3fn"},
                                            {30, "float8_e5m2"},
                                            {31, "float8_e4m3fnuz"},
                                            {32, "float8_e5m2fnuz"},
                                            {33, "float8_e8m0fnu"},
                                            {34, "uint32"},
                                            {35, "uint64"}};
  for (const auto& [number, expected] : types) {
    Pt2 file;
    file.graph()["tensor_values"]["x"]["dtype"] = number;
    const Graph graph = file.read();
    EXPECT_EQ(name(graph.values[static_cast<size_t>(graph.inputs[0])].dtype), expected);
  }
}

}  // namespace
}  // namespace penstock
