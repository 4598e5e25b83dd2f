// Operators of the export reach LibTorch's kernels with the arguments of the export.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/operators/interpreter.hpp"
#include "base/error.hpp"
#include "tests/backend/stage/graph_builder.hpp"
#include "tests/backend/support.hpp"

namespace penstock::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Runs the last operator of the builder with the given input values.
at::Tensor run_last(const Graph& graph, const std::map<ValueId, at::Tensor>& inputs,
                    int64_t batch = 4, at::Device device = at::kCPU) {
  const PreparedOperator prepared(graph, graph.operators.back(), device);
  ValueTable values(graph.values.size());
  for (const auto& [value, tensor] : inputs) values[static_cast<size_t>(value)] = tensor;
  prepared.run(values, batch);
  return values[static_cast<size_t>(graph.operators.back().outputs[0])];
}

TEST(Interpreter, FillsInWhatTheExportLeavesOut) {
  GraphBuilder b;
  const ValueId x = b.input("x", DType::float32, {2, 3});
  b.one("aten::softmax.int", {{"self", ref(x)}, {"dim", int64_t{-1}}});
  const at::Tensor input = numbers("x", {2, 3});
  EXPECT_TRUE(at::equal(run_last(b.finish({}), {{x, input}}), at::softmax(input, -1)));
}

TEST(Interpreter, ConvertsTheExportsEnums) {
  GraphBuilder b;
  b.one("aten::full", {{"size", std::vector<Expression>{2, 2}},
                       {"fill_value", 1.5},
                       {"dtype", DType::float64},
                       {"layout", Layout{7}},
                       {"device", Device{"cuda"}},
                       {"pin_memory", false}});
  const at::Tensor full = run_last(b.finish({}), {});
  EXPECT_EQ(full.scalar_type(), at::kDouble);
  EXPECT_TRUE(full.device().is_cpu());  // the stage's device, whatever the export's was
  EXPECT_TRUE(at::equal(full, at::full({2, 2}, 1.5, at::kDouble)));

  GraphBuilder c;
  const ValueId x = c.input("x", DType::float32, {1, 2, 3, 3});
  c.one("aten::clone", {{"self", ref(x)}, {"memory_format", MemoryFormat{2}}});
  const at::Tensor copy = run_last(c.finish({}), {{x, numbers("x", {1, 2, 3, 3})}});
  EXPECT_TRUE(copy.is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST(Interpreter, MakesTensorsOnTheStagesDevice) {
  for (const bool named : {false, true}) {
    GraphBuilder b;
    GraphBuilder::Arguments arguments{{"size", std::vector<Expression>{2, 2}}, {"fill_value", 1.5}};
    if (named) arguments.emplace_back("device", Device{"cpu"});
    b.one("aten::full", arguments);
    EXPECT_TRUE(run_last(b.finish({}), {}, 4, at::kMeta).is_meta());
  }
}

TEST(Interpreter, WrapsAPlainNumberWhereATensorBelongs) {
  GraphBuilder b;
  const ValueId x = b.input("x", DType::int64, {3});
  b.one("aten::mul.Tensor", {{"self", ref(x)}, {"other", -9.21}});
  const at::Tensor product = run_last(b.finish({}), {{x, at::arange(3, at::kLong)}});
  EXPECT_EQ(product.scalar_type(), at::kFloat);
  EXPECT_FLOAT_EQ(product[2].item<float>(), -18.42F);
}

TEST(Interpreter, EvaluatesSizesForTheMicrobatch) {
  GraphBuilder b;
  const ValueId x = b.input("x", DType::float32, {Expression::batch(), 6});
  b.one("aten::view",
        {{"self", ref(x)}, {"size", std::vector<Expression>{Expression::batch(), 2, -1}}});
  const Graph graph = b.finish({});
  EXPECT_EQ(run_last(graph, {{x, at::zeros({5, 6})}}, 5).sizes(), at::IntArrayRef({5, 2, 3}));
  EXPECT_EQ(run_last(graph, {{x, at::zeros({2, 6})}}, 2).sizes(), at::IntArrayRef({2, 2, 3}));
}

TEST(Interpreter, TakesListsWithGaps) {
  GraphBuilder b;
  const ValueId x = b.input("x", DType::float32, {2, 3});
  const ValueId i = b.input("i", DType::int64, {2});
  b.one("aten::index.Tensor", {{"self", ref(x)}, {"indices", TensorList{{std::nullopt, i}}}});
  const at::Tensor input = numbers("x", {2, 3});
  const at::Tensor picked = run_last(b.finish({}), {{x, input}, {i, at::arange(2, at::kLong)}});
  EXPECT_TRUE(at::equal(picked, input.slice(1, 0, 2)));
}

TEST(Interpreter, FlattensAListOfResults) {
  GraphBuilder b;
  const ValueId x = b.input("x", DType::float32, {4, 2});
  const auto parts = b.op("aten::split.Tensor", {{"self", ref(x)}, {"split_size", int64_t{2}}}, 2);
  const Graph graph = b.finish({});
  ValueTable values(graph.values.size());
  values[static_cast<size_t>(x)] = numbers("x", {4, 2});
  PreparedOperator(graph, graph.operators[0], at::kCPU).run(values, 4);
  EXPECT_TRUE(at::equal(values[static_cast<size_t>(parts[1])],
                        values[static_cast<size_t>(x)].slice(0, 2, 4)));
}

TEST(Interpreter, RunsWithoutGradientsWhereTheExportDid) {
  GraphBuilder b;
  const ValueId x = b.input("x", DType::float32, {2});
  b.one("aten::exp", {{"self", ref(x)}});
  const at::Tensor input = numbers("x", {2}).requires_grad_();
  EXPECT_TRUE(run_last(b.finish({}), {{x, input}}).requires_grad());
  b.graph.operators[0].grad_enabled = false;
  EXPECT_FALSE(run_last(b.finish({}), {{x, input}}).requires_grad());
}

TEST(Interpreter, NamesAnOperatorThatLibTorchDoesNotHave) {
  GraphBuilder b;
  const ValueId x = b.input("x", DType::float32, {2});
  b.one("mylib::gelu2", {{"self", ref(x)}});
  const Graph graph = b.finish({});
  EXPECT_THROW(PreparedOperator(graph, graph.operators[0], at::kCPU), InputError);
  EXPECT_THAT(
      message_of<std::exception>([&] { PreparedOperator(graph, graph.operators[0], at::kCPU); }),
      AllOf(HasSubstr("mylib::gelu2"), HasSubstr("layer0"), HasSubstr("--decompose")));
}

TEST(Interpreter, NamesAnArgumentThatTheSchemaDoesNotTake) {
  GraphBuilder b;
  const ValueId x = b.input("x", DType::float32, {2});
  b.one("aten::relu", {{"self", ref(x)}, {"slope", 0.5}});
  const Graph graph = b.finish({});
  EXPECT_THAT(
      message_of<std::exception>([&] { PreparedOperator(graph, graph.operators[0], at::kCPU); }),
      AllOf(HasSubstr("aten::relu"), HasSubstr("slope")));
  GraphBuilder c;
  c.one("aten::relu", {});
  const Graph without = c.finish({});
  EXPECT_THAT(message_of<std::exception>(
                  [&] { PreparedOperator(without, without.operators[0], at::kCPU); }),
              AllOf(HasSubstr("aten::relu"), HasSubstr("lacks"), HasSubstr("self")));
  GraphBuilder d;
  const ValueId y = d.input("y", DType::float32, {2});
  d.one("aten::sum.dim_IntList", {{"self", ref(y)}, {"dim", std::string("all")}});
  const Graph wrong = d.finish({});
  EXPECT_THROW(PreparedOperator(wrong, wrong.operators[0], at::kCPU), InputError);
}

TEST(Interpreter, AKernelsErrorCarriesTheOperatorsNameAndModule) {
  GraphBuilder b;
  const ValueId x = b.input("x", DType::float32, {2, 3});
  b.one("aten::mm", {{"self", ref(x)}, {"mat2", ref(x)}});
  const Graph graph = b.finish({});
  EXPECT_THAT(message_of<std::exception>([&] {
                run_last(graph, {{x, at::zeros({2, 3})}});
              }),
              AllOf(HasSubstr("aten::mm"), HasSubstr("mm_0"), HasSubstr("layer0"),
                    HasSubstr("cannot be multiplied")));
}

TEST(Interpreter, ReportsWhatItChangesInPlace) {
  GraphBuilder b;
  const ValueId x = b.input("x", DType::float32, {2});
  b.one("aten::relu_", {{"self", ref(x)}});
  const Graph graph = b.finish({});
  const PreparedOperator relu(graph, graph.operators[0], at::kCPU);
  EXPECT_THAT(relu.writes(), ::testing::ElementsAre(x));
  EXPECT_TRUE(relu.returns_written());
}

}  // namespace
}  // namespace penstock::test
