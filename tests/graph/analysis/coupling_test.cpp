// Operators through which samples influence each other, and means over targets that are the loss.
#include "graph/analysis/coupling.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/analysis/mean_of_targets.hpp"
#include "graph/operators/facts.hpp"
#include "tests/graph/build_graph.hpp"

namespace penstock {
namespace {

using testing::batch;
using ::testing::ElementsAre;
using testing::GraphBuilder;
using ::testing::IsEmpty;

std::vector<std::string> found(const GraphBuilder& b) {
  std::vector<std::string> texts;
  for (const Coupling& each : couplings(b.graph, analyse(b.graph)))
    texts.push_back(describe(b.graph, each));
  return texts;
}

std::optional<MeanLoss> loss_of(const GraphBuilder& b) {
  return mean_loss(b.graph, analyse(b.graph));
}

/// logits = linear(x, w), and labels as integers.
struct Labelled : GraphBuilder {
  ValueId x = input("x", {batch, 4}), labels = input("labels", {batch}, DType::int64),
          w = parameter("w", {8, 4});
  ValueId logits = op("aten::linear", {x, w}, {batch, 8}, {"body", "body.head"});

  ValueId cross_entropy(ValueId target, std::vector<Argument> further = {}) {
    const ValueId loss = op("aten::cross_entropy_loss", {logits, target}, {}, {"loss"});
    named({"self", "target"}, std::move(further));
    return loss;
  }
};

TEST(Couplings, AreNoneWhereEachSampleIsOnItsOwn) {
  Labelled b;
  const ValueId sum = b.op("aten::sum", {b.logits}, {batch, 1});
  const ValueId ratio = b.op("aten::div", {b.logits, sum}, {batch, 8});
  b.named({"self", "other"});
  b.output(b.op("aten::mean", {ratio}, {}));
  EXPECT_THAT(found(b), IsEmpty());
}

TEST(Couplings, NameADivisionByASumOverTheBatchWhateverLiesBetween) {
  Labelled b;
  const ValueId mask = b.op("aten::ne", {b.labels}, {batch});
  const ValueId count = b.op("aten::clamp", {b.op("aten::sum", {mask}, {})}, {});
  const ValueId total = b.op("aten::sum", {b.op("aten::mul", {b.logits, mask}, {batch, 8})}, {});
  b.output(b.op("aten::div", {total, count}, {}, {"loss"}));
  b.named({"self", "other"});
  EXPECT_THAT(found(b), ElementsAre("div (aten::div in loss) divides by clamp, which is computed "
                                    "over the whole microbatch"));
}

TEST(Couplings, NameADivisionByASumThatWasExpandedToTheBatchAgain) {
  Labelled b;
  const ValueId count = b.op("aten::expand", {b.op("aten::sum", {b.labels}, {})}, {batch, 8});
  const ValueId inverse = b.op("aten::reciprocal", {count}, {batch, 8});
  b.named({"self"});
  b.output(b.op("aten::mul", {b.logits, inverse}, {batch, 8}));
  EXPECT_THAT(found(b), ElementsAre("reciprocal (aten::reciprocal) divides by expand, which is "
                                    "computed over the whole microbatch"));
}

TEST(Couplings, NameABatchNormInTrainingAlone) {
  for (const bool training : {false, true}) {
    Labelled b;
    b.output(b.op("aten::batch_norm", {b.logits}, {batch, 8}, {"norm"}));
    b.named({"input"}, {{"training", training}});
    EXPECT_EQ(found(b).size(), training ? 1U : 0U);
  }
}

TEST(Couplings, AreThoseOfTheFirstOutput) {
  Labelled b;
  b.output(b.logits);
  const ValueId loss = b.cross_entropy(b.labels);
  b.output(b.op("aten::mul", {loss, loss}, {}));
  EXPECT_THAT(found(b), IsEmpty());
}

TEST(Couplings, NameAMeanOverTargetsThatIsNotTheLossItself) {
  Labelled b;
  b.output(b.op("aten::neg", {b.cross_entropy(b.labels)}, {}));
  EXPECT_THAT(found(b),
              ElementsAre("cross_entropy_loss (aten::cross_entropy_loss in loss) is a mean over "
                          "the targets that are not -100; their number differs between "
                          "microbatches"));
  EXPECT_FALSE(loss_of(b));
}

TEST(MeanLoss, IsTheFirstOutputWithWhatComputesItsTargets) {
  Labelled b;
  const ValueId shifted = b.op("aten::constant_pad_nd", {b.labels}, {batch});
  b.graph.values[shifted].dtype = DType::int64;
  b.output(b.cross_entropy(shifted, {{"ignore_index", int64_t{7}}}));
  const auto loss = loss_of(b);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->op, 2);
  EXPECT_EQ(loss->target, shifted);
  EXPECT_EQ(loss->ignored, 7);
  EXPECT_THAT(loss->operators, ElementsAre(1));
  EXPECT_THAT(found(b), IsEmpty());
}

TEST(MeanLoss, IsNoneThatIsReadAgainOrHasTargetsOfItsOwnMaking) {
  Labelled read;
  const ValueId loss = read.cross_entropy(read.labels);
  read.output(loss);
  read.output(read.op("aten::exp", {loss}, {}));
  EXPECT_FALSE(loss_of(read));
  EXPECT_EQ(found(read).size(), 1U);

  Labelled made;
  const ValueId best = made.op("aten::argmax", {made.logits}, {batch});
  made.graph.values[best].dtype = DType::int64;
  made.output(made.cross_entropy(best));
  EXPECT_FALSE(loss_of(made));
  EXPECT_EQ(found(made).size(), 1U);
}

TEST(MeanLoss, IsNoneOfAnotherReductionOrOfProbabilities) {
  Labelled sum;
  sum.output(sum.cross_entropy(sum.labels, {{"reduction", int64_t{2}}}));
  Labelled probabilities;
  probabilities.output(probabilities.cross_entropy(probabilities.x));
  for (const Labelled* b : {&sum, &probabilities}) {
    EXPECT_FALSE(loss_of(*b));
    EXPECT_THAT(found(*b), IsEmpty());
  }
}

TEST(MeanLoss, BecomesASum) {
  Labelled b;
  b.output(b.cross_entropy(b.labels, {{"reduction", int64_t{1}}}));
  const Graph summed = with_sum(b.graph, loss_of(b).value());
  EXPECT_EQ(number(summed.operators[1], "reduction", 0), 2);
  EXPECT_EQ(summed.operators[1].arguments.size(), 3U);
  EXPECT_EQ(number(b.graph.operators[1], "reduction", 0), 1);
}

}  // namespace
}  // namespace penstock
