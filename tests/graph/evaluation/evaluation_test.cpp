#include "graph/evaluation/evaluation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "graph/operators/facts.hpp"
#include "tests/graph/build_graph.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using testing::batch;
using testing::GraphBuilder;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A dropout with the probability that it has by default, and what the file says of it.
Graph dropout(std::optional<Evaluation> evaluation) {
  GraphBuilder b;
  const ValueId x = b.input("x", {batch, 4});
  b.output(b.op("aten::dropout", {x}, {batch, 4}));
  b.named({"input"}, {{"train", true}});
  b.graph.path = "model.pt2";
  b.graph.evaluation = std::move(evaluation);
  return b.graph;
}

TEST(InEvaluation, GivesOperatorsTheArgumentsThatTheFileSays) {
  const Graph graph =
      dropout(Evaluation{{{"dropout", {"train", false}}, {"dropout", {"p", 0.0}}}, /*differs=*/""});
  const Graph changed = in_evaluation(graph);
  const Operator& op = changed.operators.at(0);
  EXPECT_FALSE(flag(op, "train", true));
  EXPECT_EQ(number(op, "p", 0.5), 0) << "an argument that the exporter left out is added";
  EXPECT_EQ(op.arguments.size(), 3u);
  EXPECT_TRUE(is_random(graph.operators.at(0)));
}

TEST(InEvaluation, IsRefusedWithTheReasonWhereItIsNotTheModule) {
  EXPECT_THAT(
      [] {
        in_evaluation(dropout(Evaluation{{}, "output 0 differs"}));
      },
      ThrowsMessage<InputError>(
          AllOf(HasSubstr("model.pt2: cannot be run in evaluation mode: output 0 differs"),
                HasSubstr("export it again"))));
}

TEST(InEvaluation, OfAFileThatDoesNotSayIsTheGraphItselfUnlessItDrawsOrUpdates) {
  EXPECT_THAT([] { in_evaluation(dropout(std::nullopt)); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("aten::dropout (dropout) draws"),
                                              HasSubstr("tools/export_model.py"))));
  GraphBuilder b;
  const ValueId x = b.input("x", {batch, 4}), mean = b.buffer("mean", {4});
  const ValueId y = b.op("aten::add", {x, mean}, {batch, 4});
  b.output(y);
  EXPECT_EQ(in_evaluation(b.graph).operators.size(), 1u);
  b.update(mean, y);
  EXPECT_THAT([&] { in_evaluation(b.graph); },
              ThrowsMessage<InputError>(HasSubstr("updates its buffer `mean`")));
}

}  // namespace
}  // namespace penstock
