#include "graph/functional/functional.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/graph/build_graph.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using testing::batch;
using ::testing::ElementsAre;
using testing::GraphBuilder;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// `add_ = add(relu)`: an operator by what it gives and reads.
std::vector<std::string> lines(const Graph& graph) {
  std::vector<std::string> result;
  const auto name = [&](ValueId v) { return graph.values.at(static_cast<size_t>(v)).name; };
  for (const Operator& op : graph.operators) {
    std::string line;
    for (const ValueId v : op.outputs) line += (v < 0 ? "-" : name(v)) + " ";
    line += "= " + op.target.substr(op.target.find("::") + 2) + "(";
    for (const ValueId v : op.reads()) line += (line.ends_with('(') ? "" : " ") + name(v);
    result.push_back(line + ")");
  }
  return result;
}

const testing::Shape four_wide{batch, 4}, two_wide{batch, 2};

/// Half of a value by its second dimension.
ValueId slice(GraphBuilder& b, ValueId of) {
  const ValueId part = b.op("aten::slice", {of}, two_wide);
  b.named({"self"}, {{"dim", int64_t{1}}, {"end", int64_t{2}}});
  return part;
}

ValueId add_in_place(GraphBuilder& b, ValueId to, testing::Shape shape) {
  const ValueId sum = b.op("aten::add_", {to}, std::move(shape), {"layers.1"});
  b.named({"self"}, {{"other", int64_t{1}}});
  return sum;
}

TEST(Functional, WhatIsReadAfterAWriteIsWhatWasWritten) {
  GraphBuilder b;
  const ValueId x = b.input("x", four_wide), w = b.parameter("w", {4});
  const ValueId y = b.op("aten::mul", {x, w}, four_wide);
  const ValueId before = b.op("aten::exp", {y}, four_wide);
  const ValueId z = b.op("aten::relu_", {y}, four_wide);
  b.output(b.op("aten::cat", {before, y, z}, four_wide));
  make_functional(b.graph);
  EXPECT_THAT(lines(b.graph), ElementsAre("mul = mul(x w)", "exp = exp(mul)", "relu_ = relu(mul)",
                                          "cat = cat(exp relu_)"));
  EXPECT_EQ(b.graph.operators[2].name, "relu_");
}

TEST(Functional, AWriteToAViewIsSeenByWhatItIsAViewOfAndByOtherViews) {
  GraphBuilder b;
  const ValueId x = b.input("x", four_wide), w = b.parameter("w", {4});
  const ValueId y = b.op("aten::mul", {x, w}, four_wide);
  const ValueId part = slice(b, y), other = slice(b, y);
  const ValueId old = b.op("aten::exp", {other}, two_wide);
  add_in_place(b, part, two_wide);
  b.output(b.op("aten::cat", {old, other, y}, four_wide));
  make_functional(b.graph);
  EXPECT_THAT(
      lines(b.graph),
      ElementsAre("mul = mul(x w)", "slice = slice(mul)", "slice_1 = slice(mul)",
                  "exp = exp(slice_1)", "add_ = add(slice)", "mul_now1 = slice_scatter(mul add_)",
                  "slice_1_now1 = slice(mul_now1)", "cat = cat(exp slice_1_now1 mul_now1)"));
  const Operator& put = b.graph.operators[5];
  EXPECT_EQ(put.modules, std::vector<std::string>{"layers.1"});
  EXPECT_EQ(put.arguments[1].name, "src");
  EXPECT_EQ(std::get<int64_t>(put.arguments[3].value), 2);
}

TEST(Functional, WhatNobodyReadsAgainIsNotPutBack) {
  GraphBuilder b;
  const ValueId x = b.input("x", four_wide), w = b.parameter("w", {4});
  const ValueId part = slice(b, b.op("aten::mul", {x, w}, four_wide));
  b.output(add_in_place(b, part, two_wide));
  make_functional(b.graph);
  EXPECT_THAT(lines(b.graph),
              ElementsAre("mul = mul(x w)", "slice = slice(mul)", "add_ = add(slice)"));
}

TEST(Functional, AWrittenBufferBecomesAnUpdate) {
  GraphBuilder b;
  const ValueId x = b.input("x", four_wide), calls = b.buffer("calls", {});
  const ValueId more = add_in_place(b, calls, {});
  b.op("aten::copy_", {calls, more}, {});
  b.named({"self", "src"});  // `self.calls += 1` ends so
  b.output(b.op("aten::mul", {x, calls}, four_wide));
  make_functional(b.graph);
  EXPECT_THAT(lines(b.graph), ElementsAre("add_ = add(calls)", "mul = mul(x add_)"));
  ASSERT_EQ(b.graph.updates.size(), 1u);
  EXPECT_EQ(b.graph.updates[0].tensor, 0);
  EXPECT_EQ(b.graph.values[static_cast<size_t>(b.graph.updates[0].value)].name, "add_");
}

TEST(Functional, ABatchNormGivesItsStatistics) {
  GraphBuilder b;
  const ValueId x = b.input("x", four_wide);
  const ValueId mean = b.buffer("mean", {4}), var = b.buffer("var", {4});
  b.output(b.op("aten::batch_norm", {x, mean, var}, four_wide));
  b.named({"input", "running_mean", "running_var"}, {{"training", true}, {"cudnn_enabled", true}});
  make_functional(b.graph);
  EXPECT_THAT(lines(b.graph), ElementsAre("batch_norm - - mean_now1 var_now1 = "
                                          "_native_batch_norm_legit_functional(x mean var)"));
  EXPECT_EQ(b.graph.operators[0].arguments.size(), 4u);
  ASSERT_EQ(b.graph.updates.size(), 2u);
}

TEST(Functional, AComparisonInPlaceKeepsTheType) {
  GraphBuilder b;
  const ValueId x = b.input("x", four_wide);
  const ValueId y = b.op("aten::exp", {x}, four_wide);
  b.output(b.op("aten::lt_", {y}, four_wide));
  b.named({"self"}, {{"other", int64_t{0}}});
  make_functional(b.graph);
  EXPECT_THAT(lines(b.graph),
              ElementsAre("exp = exp(x)", "lt__now1 = lt(exp)", "lt_ = _to_copy(lt__now1)"));
}

TEST(Functional, WhatIsCopiedTakesTheFormOfWhatItIsCopiedTo) {
  GraphBuilder b;
  const ValueId x = b.input("x", four_wide), mask = b.input("mask", {batch, 1}, DType::boolean);
  const ValueId y = b.op("aten::exp", {x}, four_wide);
  b.op("aten::copy_", {y, mask}, four_wide);
  b.named({"self", "src"});
  b.output(b.op("aten::tanh", {y}, four_wide));
  make_functional(b.graph);
  EXPECT_THAT(lines(b.graph), ElementsAre("exp = exp(x)", "copy__now1 = expand(mask)",
                                          "copy_ = _to_copy(copy__now1)", "tanh = tanh(copy_)"));
  EXPECT_EQ(b.graph.values[static_cast<size_t>(b.graph.operators[1].outputs[0])].dtype,
            DType::boolean);
}

TEST(Functional, MarkersStayBeforeTheOperatorThatCameNext) {
  GraphBuilder b;
  const ValueId x = b.input("x", four_wide);
  const ValueId y = b.op("aten::exp", {x}, four_wide);
  add_in_place(b, slice(b, y), two_wide);
  b.output(b.op("aten::tanh", {y}, four_wide));
  b.graph.markers = {2, 3};
  make_functional(b.graph);
  EXPECT_THAT(lines(b.graph),
              ElementsAre("exp = exp(x)", "slice = slice(exp)", "add_ = add(slice)",
                          "exp_now1 = slice_scatter(exp add_)", "tanh = tanh(exp_now1)"));
  EXPECT_THAT(b.graph.markers, ElementsAre(2, 4));
}

TEST(Functional, AViewIsMadeAgainWithOrWithoutGradientAsItWas) {
  GraphBuilder b;
  const ValueId x = b.input("x", four_wide), w = b.parameter("w", {4});
  const ValueId y = b.op("aten::mul", {x, w}, four_wide);
  const ValueId part = slice(b, y);
  b.op("aten::relu_", {y}, four_wide);
  b.op("aten::exp", {part}, two_wide);
  b.graph.operators.back().grad_enabled = false;
  b.output(b.op("aten::tanh", {part}, two_wide));
  make_functional(b.graph);
  EXPECT_THAT(lines(b.graph), ElementsAre("mul = mul(x w)", "slice = slice(mul)",
                                          "relu_ = relu(mul)", "slice_now1 = slice(relu_)",
                                          "exp = exp(slice_now1)", "tanh = tanh(slice_now1)"));
  EXPECT_TRUE(b.graph.operators[3].grad_enabled);
}

TEST(Functional, AGraphWithoutWritesStaysAsItIs) {
  GraphBuilder b;
  const ValueId x = b.input("x", four_wide);
  b.op("aten::relu", {x}, four_wide);
  b.output(b.op("aten::exp", {x}, four_wide));
  make_functional(b.graph);
  EXPECT_THAT(lines(b.graph), ElementsAre("relu = relu(x)", "exp = exp(x)"));
}

/// The message for the graph after `write`, made on a value computed from an input.
template <typename Write>
void expect_refused(Write write, const std::vector<std::string>& words) {
  GraphBuilder b;
  b.graph.path = "model.pt2";
  const ValueId x = b.input("x", four_wide);
  write(b, x, b.op("aten::mul", {x, b.parameter("w", {4})}, four_wide));
  try {
    make_functional(b.graph);
    ADD_FAILURE() << "accepted, " << words.front();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("model.pt2"));
    for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word));
  }
}

TEST(Functional, WhatCannotBeToldIsRefusedWithOperatorPlaceAndCure) {
  expect_refused([](GraphBuilder& b, ValueId x, ValueId) { add_in_place(b, x, four_wide); },
                 {"aten::add_ (add_) in layers.1", "input `x`", "x = x + 1"});
  expect_refused([](GraphBuilder& b, ValueId, ValueId) { add_in_place(b, 1, {4}); },
                 {"aten::add_ (add_) in layers.1", "`w`", "clone()"});
  expect_refused(
      [](GraphBuilder& b, ValueId, ValueId y) {
        add_in_place(b, y, four_wide);
        b.graph.operators.back().grad_enabled = false;
      },
      {"aten::add_ (add_) in layers.1", "without gradient", "detach().clone()"});
  expect_refused(
      [](GraphBuilder& b, ValueId, ValueId y) {
        const ValueId part = slice(b, y);
        b.graph.operators.back().grad_enabled = false;
        add_in_place(b, part, two_wide);
        b.graph.operators.back().grad_enabled = false;
      },
      {"aten::add_ (add_) in layers.1", "without gradient to `mul`", "detach().clone()"});
  expect_refused(
      [](GraphBuilder& b, ValueId, ValueId y) {
        add_in_place(b, b.op("aten::reshape", {y}, four_wide), four_wide);
        b.output(b.op("aten::exp", {y}, four_wide));  // written to only if reshape did not copy
      },
      {"aten::add_ (add_) in layers.1", "exp reads again as `mul`", "run_decompositions"});
  expect_refused(
      [](GraphBuilder& b, ValueId, ValueId y) {
        const ValueId copy = b.op("aten::contiguous", {y}, four_wide);
        add_in_place(b, y, four_wide);
        b.output(b.op("aten::exp", {copy}, four_wide));
      },
      {"aten::contiguous (contiguous)", "a view or a copy", "run_decompositions"});
  expect_refused(
      [](GraphBuilder& b, ValueId, ValueId y) { b.op("aten::resize_", {y}, two_wide, {"body"}); },
      {"aten::resize_ (resize_) in body", "writes to its input", "export_model.py"});
}

}  // namespace
}  // namespace penstock
