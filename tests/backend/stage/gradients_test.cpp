// Gradients of stages equal those of the whole model, however a parameter is used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/backend/stage/driver.hpp"
#include "tests/backend/stage/graph_builder.hpp"

namespace penstock::test {
namespace {

/// Rounding of sums of at most some hundred products in another order, relative: 1e-10 is 10^5 ulp
/// of a double, far below any wrong term.
constexpr double kDouble = 1e-10;

std::vector<Expression> rows(int64_t columns) { return {Expression::batch(), columns}; }

Batch made_up(const Graph& graph, int64_t width, int microbatches = 3, int64_t size = 4) {
  Batch batch{.size = size};
  for (int m = 0; m < microbatches; ++m) {
    const std::string name = "batch" + std::to_string(m);
    batch.inputs.push_back({{graph.inputs[0], numbers(name, {size, width}, at::kDouble)}});
    batch.targets.push_back(numbers(name + "t", {size, width}, at::kDouble));
  }
  return batch;
}

/// Stages equal the reference with every split, and I and W equal B.
void check(const Graph& graph, const std::map<int, at::Tensor>& tensors,
           const std::vector<std::vector<OperatorId>>& splits, int64_t width = 6) {
  const Batch batch = made_up(graph, width);
  const StepOutcome expected = reference_step(graph, tensors, batch, Loss::mse);
  for (const std::vector<OperatorId>& begins : splits) {
    StageRow row(graph, tensors, begins, Loss::mse);
    const StepOutcome whole = row.step(batch, Backward::whole);
    expect_close(whole, expected, kDouble, graph);
    StageRow again(graph, tensors, begins, Loss::mse);
    expect_identical_gradients(again.step(batch, Backward::split), whole, graph);
    // A second step starts from nothing.
    expect_identical_gradients(again.step(batch, Backward::split), whole, graph);
    for (const Backward kind : {Backward::whole, Backward::split}) {
      StageRow recomputing(graph, tensors, begins, Loss::mse, true);
      expect_identical_gradients(recomputing.step(batch, kind), whole, graph);
    }
  }
}

/// A builder with an input of six columns in double precision.
struct Model : GraphBuilder {
  ValueId x = input("x", DType::float64, rows(6));
  ValueId parameter6(const std::string& name, at::IntArrayRef sizes) {
    return parameter(name, numbers(name, sizes, at::kDouble));
  }
  ValueId call(const std::string& target, const Arguments& arguments) {
    return one(target, arguments, DType::float64);
  }
  ValueId dense(const std::string& name, ValueId from) {
    return linear(*this, name, from, 6, 6, DType::float64);
  }
  ValueId tanh(ValueId from) { return call("aten::tanh", {{"self", ref(from)}}); }
  ValueId times(ValueId from, ValueId weight) {
    return call("aten::linear", {{"input", ref(from)}, {"weight", ref(weight)}});
  }
  ValueId add(ValueId a, ValueId b) {
    return call("aten::add.Tensor", {{"self", ref(a)}, {"other", ref(b)}});
  }
};

TEST(StageGradients, OfAChain) {
  Model m;
  const ValueId end = m.dense("c", m.tanh(m.dense("b", m.tanh(m.dense("a", m.x)))));
  check(m.finish({end}), m.tensors, {{0}, {0, 2}, {0, 1, 3}, {0, 1, 2, 3, 4}});
}

TEST(StageGradients, OfAParameterUsedThreeTimesInAStage) {
  Model m;
  const ValueId w = m.parameter6("w", {6, 6});
  const ValueId end = m.times(m.tanh(m.times(m.tanh(m.times(m.x, w)), w)), w);
  check(m.finish({end}), m.tensors, {{0}, {0, 2}, {0, 2, 4}});
}

TEST(StageGradients, OfAParameterUsedTwiceByOneOperator) {
  Model m;
  const ValueId w = m.parameter6("w", {6});
  const ValueId end =
      m.call("aten::addcmul",
             {{"self", ref(m.dense("a", m.x))}, {"tensor1", ref(w)}, {"tensor2", ref(w)}});
  check(m.finish({end}), m.tensors, {{0}, {0, 1}});
}

TEST(StageGradients, ThroughViewsOfAParameter) {
  Model m;
  const ValueId w = m.parameter6("w", {6, 12});
  const auto halves =
      m.op("aten::split.Tensor",
           {{"self", ref(w)}, {"split_size", int64_t{6}}, {"dim", int64_t{1}}}, 2, DType::float64);
  const ValueId t = m.call("aten::t", {{"self", ref(halves[1])}});
  const ValueId first = m.tanh(m.times(m.x, halves[0]));
  const ValueId end = m.times(m.tanh(m.times(first, t)), halves[0]);
  check(m.finish({end}), m.tensors, {{0}, {0, 4}, {0, 3, 5}});
}

TEST(StageGradients, ThroughAnExpandedParameter) {
  Model m;
  const ValueId w = m.parameter6("w", {1, 6});
  const ValueId fixed =
      m.call("aten::expand", {{"self", ref(w)}, {"size", std::vector<Expression>{6, 6}}});
  const ValueId batched = m.call("aten::expand", {{"self", ref(w)}, {"size", rows(6)}});
  const ValueId end = m.add(m.tanh(m.times(m.x, fixed)), batched);
  check(m.finish({end}), m.tensors, {{0}, {0, 3}});
}

TEST(StageGradients, ThroughACastOfAParameter) {
  Model m;
  const ValueId w = m.parameter6("w", {6, 6});
  const ValueId low =
      m.one("aten::_to_copy", {{"self", ref(w)}, {"dtype", DType::float32}}, DType::float32);
  const ValueId high = m.call("aten::_to_copy", {{"self", ref(low)}, {"dtype", DType::float64}});
  const ValueId end = m.times(m.tanh(m.times(m.x, high)), high);
  // To a lower precision and back: the gradient of each microbatch is rounded, as in PyTorch.
  check(m.finish({end}), m.tensors, {{0}});
}

/// w = v * g / norm(v): four operators, computed once per step.
ValueId weight_norm(Model& m) {
  const ValueId v = m.parameter6("v", {6, 6});
  const ValueId g = m.parameter6("g", {6, 1});
  const ValueId square =
      m.call("aten::pow.Tensor_Scalar", {{"self", ref(v)}, {"exponent", int64_t{2}}});
  const ValueId sum =
      m.call("aten::sum.dim_IntList",
             {{"self", ref(square)}, {"dim", std::vector<Expression>{1}}, {"keepdim", true}});
  const ValueId norm = m.call("aten::sqrt", {{"self", ref(sum)}});
  const ValueId ratio = m.call("aten::div.Tensor", {{"self", ref(g)}, {"other", ref(norm)}});
  return m.call("aten::mul.Tensor", {{"self", ref(v)}, {"other", ref(ratio)}});
}

TEST(StageGradients, ThroughAChainOfOperatorsOnParameters) {
  Model m;
  const ValueId w = weight_norm(m);
  const ValueId batched =
      m.call("aten::mul.Tensor", {{"self", ref(w)}, {"other", Expression::batch()}});
  const ValueId end = m.times(m.tanh(m.times(m.x, w)), batched);
  check(m.finish({end}), m.tensors, {{0}, {0, 6}, {0, 7, 8}});
}

TEST(StageGradients, OfAValueFromParametersThatAnotherStageUses) {
  Model m;
  const ValueId w = m.parameter6("w", {1, 6});
  const ValueId batched = m.call("aten::expand", {{"self", ref(w)}, {"size", rows(6)}});
  const ValueId bent = m.tanh(batched);
  const ValueId end = m.add(m.dense("b", m.add(m.dense("a", m.x), bent)), bent);
  check(m.finish({end}), m.tensors, {{0}, {0, 4}, {0, 2, 4}});
}

TEST(StageGradients, OfAnOutputThatOnlyParametersReach) {
  for (const bool chain : {false, true}) {
    Model m;
    ValueId end = m.tanh(m.parameter6("w", {4, 6}));
    if (chain) end = m.tanh(end);
    const Graph graph = m.finish({end});
    const Batch batch = made_up(graph, 6);
    const StepOutcome expected = reference_step(graph, m.tensors, batch, Loss::mse);
    StageRow whole(graph, m.tensors, {0}, Loss::mse), split(graph, m.tensors, {0}, Loss::mse);
    const StepOutcome actual = whole.step(batch, Backward::whole);
    expect_close(actual, expected, kDouble, graph);
    expect_identical_gradients(split.step(batch, Backward::split), actual, graph);
  }
}

TEST(StageGradients, OfACopyOfAParameterThatIsChangedInPlace) {
  Model m;
  const ValueId w = m.parameter6("w", {4, 6});
  const ValueId twice = m.call("aten::mul.Scalar", {{"self", ref(m.tanh(w))}, {"other", 2.0}});
  const ValueId sum = m.call("aten::add_.Tensor", {{"self", ref(twice)}, {"other", ref(m.x)}});
  const ValueId end = m.dense("a", m.tanh(sum));
  check(m.finish({end}), m.tensors, {{0}});
}

TEST(StageGradients, OfASkipConnectionToALaterStage) {
  Model m;
  const ValueId a = m.tanh(m.dense("a", m.x));
  const ValueId b = m.tanh(m.dense("b", a));
  const ValueId end = m.add(m.dense("d", m.add(m.dense("c", b), a)), b);
  check(m.finish({end}), m.tensors, {{0}, {0, 2, 4}, {0, 2, 5, 6}});
}

TEST(StageGradients, AreZeroWhereNoneComes) {
  Model m;
  const ValueId a = m.dense("a", m.x);
  const ValueId b = m.dense("b", a);
  // Stage 1 compares with `a` but no gradient comes back through the comparison.
  const ValueId larger =
      m.one("aten::gt.Scalar", {{"self", ref(a)}, {"other", 0.0}}, DType::boolean);
  const ValueId end = m.call("aten::mul.Tensor", {{"self", ref(b)}, {"other", ref(larger)}});
  check(m.finish({end}), m.tensors, {{0}, {0, 2}, {0, 1}, {0, 1, 2, 3}});
}

void check_embedding(bool sparse) {
  GraphBuilder m;
  const ValueId ids = m.input("ids", DType::int64, {Expression::batch()});
  const ValueId table = m.parameter("table", numbers("table", {9, 6}, at::kDouble));
  const ValueId h =
      m.one("aten::embedding", {{"weight", ref(table)}, {"indices", ref(ids)}, {"sparse", sparse}},
            DType::float64);
  const ValueId end = linear(m, "a", h, 6, 6, DType::float64);
  const Graph graph = m.finish({end});
  Batch batch{.size = 4};
  for (int k = 0; k < 2; ++k) {
    batch.inputs.push_back({{ids, at::tensor({k, 3, 3, 8}, at::kLong)}});
    batch.targets.push_back(at::zeros({4, 6}, at::kDouble));
  }
  const StepOutcome expected = reference_step(graph, m.tensors, batch, Loss::mse);
  StageRow whole(graph, m.tensors, {0, 1}, Loss::mse), split(graph, m.tensors, {0, 1}, Loss::mse);
  const StepOutcome actual = whole.step(batch, Backward::whole);
  expect_close(actual, expected, kDouble, graph);
  expect_identical_gradients(split.step(batch, Backward::split), actual, graph);
}

TEST(StageGradients, OfAStageThatReadsOnlyIntegers) { check_embedding(false); }
TEST(StageGradients, OfASparseEmbedding) { check_embedding(true); }

TEST(StageGradients, DoNotPassARegionWithoutGradients) {
  Model m;
  const ValueId a = m.dense("a", m.x);
  const ValueId frozen = m.dense("b", a);
  m.graph.operators.back().grad_enabled = false;
  const ValueId end = m.add(m.dense("c", m.add(a, frozen)), frozen);
  check(m.finish({end}), m.tensors, {{0}, {0, 1, 2}, {0, 3}});
}

TEST(StageGradients, OfAModelThatWorksInPlace) {
  Model m;
  const ValueId calls = m.buffer("calls", at::zeros({}, at::kDouble));
  const ValueId counted =
      m.call("aten::add_.Scalar", {{"self", ref(calls)}, {"other", int64_t{1}}});
  const ValueId a = m.dense("a", m.x);
  const ValueId shifted = m.call("aten::add_.Tensor", {{"self", ref(a)}, {"other", ref(counted)}});
  const ValueId bent = m.call("aten::relu_", {{"self", ref(shifted)}});
  const ValueId end = m.dense("b", bent);
  const Graph graph = m.finish({end});
  const Batch batch = made_up(graph, 6);
  StageRow row(graph, m.tensors, {0}, Loss::mse), split(graph, m.tensors, {0}, Loss::mse);
  const StepOutcome whole = row.step(batch, Backward::whole);
  EXPECT_EQ(whole.buffers.at(0).item<double>(), 3);
  EXPECT_EQ(m.tensors.at(0).item<double>(), 0);
  expect_identical_gradients(split.step(batch, Backward::split), whole, graph);
}

TEST(StageGradients, LeaveTheCallersTensorsAsTheyAre) {
  Model m;
  const ValueId bent = m.call("aten::relu_", {{"self", ref(m.x)}});
  const ValueId end = m.dense("a", bent);
  const Graph graph = m.finish({end});
  const Batch batch = made_up(graph, 6);
  const at::Tensor before = batch.inputs[0].at(m.x).clone();
  StageRow(graph, m.tensors, {0}, Loss::mse).step(batch, Backward::whole);
  EXPECT_TRUE(at::equal(batch.inputs[0].at(m.x), before));
}

TEST(StageGradients, AChangedParameterIsRefused) {
  Model m;
  const ValueId w = m.parameter6("w", {6, 6});
  const ValueId halved = m.call("aten::mul_.Scalar", {{"self", ref(w)}, {"other", 0.5}});
  const Graph graph = m.finish({m.times(m.x, halved)});
  EXPECT_THROW(StageRow(graph, m.tensors, {0}, Loss::mse), InputError);
}

TEST(StageGradients, WithDropoutDoNotDependOnTheSplit) {
  Model m;
  ValueId h = m.x;
  for (int layer = 0; layer < 4; ++layer) {
    h = m.call(
        "aten::dropout",
        {{"input", ref(m.tanh(m.dense(std::to_string(layer), h)))}, {"p", 0.5}, {"train", true}});
  }
  check(m.finish({h}), m.tensors, {{0}, {0, 6}, {0, 2, 5, 9}});
}

/// The kernel draws in memory order, and a value that was sent has lost its strides.
TEST(StageGradients, WithDropoutOfATransposedValueDoNotDependOnTheSplit) {
  Model m;
  const ValueId turned = m.call("aten::t", {{"self", ref(m.tanh(m.dense("a", m.x)))}});
  const ValueId dropped =
      m.call("aten::dropout", {{"input", ref(turned)}, {"p", 0.5}, {"train", true}});
  const ValueId end = m.dense("b", m.call("aten::t", {{"self", ref(dropped)}}));
  check(m.finish({end}), m.tensors, {{0}, {0, 3}, {0, 4}});
}

}  // namespace
}  // namespace penstock::test
