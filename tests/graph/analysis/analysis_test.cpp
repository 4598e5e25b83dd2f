// Values that are constant, derived from parameters, or require a gradient.
#include "graph/analysis/analysis.hpp"

#include <gtest/gtest.h>

#include "tests/graph/build_graph.hpp"

namespace penstock {
namespace {

using testing::batch;
using testing::GraphBuilder;

struct Kind {
  bool constant, derived, gradient;
  bool operator==(const Kind&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) {
  return out << "constant " << kind.constant << " derived " << kind.derived << " gradient "
             << kind.gradient;
}
Kind kind(const Graph& graph, ValueId id) {
  const Analysis analysis = analyse(graph);
  return {analysis.constant[id], analysis.parameter_derived[id], analysis.requires_grad[id]};
}

constexpr Kind constant{true, false, false}, derived{false, true, true},
    activation{false, false, true}, data{false, false, false};

TEST(Analysis, SourcesOfEachKind) {
  GraphBuilder b;
  EXPECT_EQ(kind(b.graph, b.input("x", {batch, 4})), data);
  EXPECT_EQ(kind(b.graph, b.parameter("w", {4})),
            activation);  // requires a gradient, is not derived
  EXPECT_EQ(kind(b.graph, b.frozen("f", {4})), constant);
  EXPECT_EQ(kind(b.graph, b.buffer("mask", {4})), constant);
}

TEST(Analysis, MasksAndPositionsAreConstant) {
  GraphBuilder b;
  const auto mask = b.op("aten::triu", {b.op("aten::full", {}, {4, 4})}, {4, 4});
  const auto positions = b.op("aten::add", {mask, b.buffer("ids", {4})}, {4, 4});
  EXPECT_EQ(kind(b.graph, positions), constant);
  EXPECT_EQ(kind(b.graph, b.op("aten::zeros", {}, {batch, 4})), constant);
}

TEST(Analysis, RandomNumbersAndUpdatedBuffersAreNotConstant) {
  GraphBuilder b;
  EXPECT_EQ(kind(b.graph, b.op("aten::randn", {}, {4})), data);
  const auto calls = b.buffer("calls", {});
  const auto next = b.op("aten::add", {calls}, {});
  b.update(calls, next);
  EXPECT_EQ(kind(b.graph, calls), data);
  EXPECT_EQ(kind(b.graph, next), data);
}

TEST(Analysis, CastsAndViewsOfParametersAreDerived) {
  GraphBuilder b;
  const auto w = b.parameter("w", {4, 4});
  const auto cast = b.op("aten::_to_copy", {b.op("aten::t", {w}, {4, 4})}, {4, 4});
  EXPECT_EQ(kind(b.graph, cast), derived);
  const auto scaled = b.op("aten::mul", {cast, b.op("aten::full", {}, {4})}, {4, 4});
  EXPECT_EQ(kind(b.graph, scaled), derived);
  EXPECT_EQ(kind(b.graph, b.op("aten::mul", {cast, b.input("x", {batch, 4})}, {batch, 4})),
            activation);
}

TEST(Analysis, AParameterExpandedOverTheBatchIsAnActivation) {
  GraphBuilder b;
  const auto token = b.parameter("class_token", {1, 4});
  const auto expanded = b.op("aten::expand", {token}, {batch, 4});
  EXPECT_EQ(kind(b.graph, expanded), activation);
  // Also where only an argument, not the shape, has the batch in it.
  const auto scaled = b.op("aten::mul", {token}, {1, 4});
  b.named({}, {{"other", batch}});
  EXPECT_EQ(kind(b.graph, scaled), activation);
  EXPECT_EQ(kind(b.graph, b.op("aten::relu", {scaled}, {1, 4})), activation);
}

TEST(Analysis, AConstantOfTheBatchMakesWhatItMeetsAnActivation) {
  GraphBuilder b;
  const auto zeros = b.op("aten::zeros", {}, {batch, 4});
  const auto sum = b.op("aten::sum", {zeros}, {4});
  EXPECT_EQ(kind(b.graph, sum), constant);
  EXPECT_EQ(kind(b.graph, b.op("aten::add", {sum, b.parameter("w", {4})}, {4})), activation);
}

TEST(Analysis, GradientsStopAtDetachIntegersAndNoGrad) {
  GraphBuilder b;
  const auto h =
      b.op("aten::linear", {b.input("x", {batch, 4}), b.parameter("w", {4, 4})}, {batch, 4});
  EXPECT_EQ(kind(b.graph, b.op("aten::detach", {h}, {batch, 4})), data);
  const auto index = b.op("aten::argmax", {h}, {batch});
  b.graph.values[index].dtype = DType::int64;
  EXPECT_EQ(kind(b.graph, index), data);
  const auto silent = b.op("aten::relu", {h}, {batch, 4});
  b.graph.operators.back().grad_enabled = false;
  EXPECT_EQ(kind(b.graph, silent), data);
  EXPECT_EQ(kind(b.graph, b.op("aten::add", {silent, h}, {batch, 4})), activation);
}

TEST(Analysis, AUserInputNeverRequiresAGradient) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 4});
  EXPECT_EQ(kind(b.graph, b.op("aten::relu", {x}, {batch, 4})), data);
}

TEST(Analysis, RunningStatisticsCarryNoGradient) {
  GraphBuilder b;
  const auto mean = b.buffer("mean", {4});
  const auto h =
      b.op("aten::linear", {b.input("x", {batch, 4}), b.parameter("w", {4, 4})}, {batch, 4});
  const auto out = b.ops("aten::_native_batch_norm_legit_functional", {h, mean},
                         {{batch, 4}, {4}, {4}, {4}, {4}});
  b.update(mean, out[3]);
  EXPECT_EQ(kind(b.graph, out[0]), activation);
  EXPECT_EQ(kind(b.graph, out[3]), data);
}

}  // namespace
}  // namespace penstock
