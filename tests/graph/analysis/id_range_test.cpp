// The ids that integer inputs may hold, by the operators that read them.
#include "graph/analysis/id_range.hpp"

#include <gtest/gtest.h>

#include "tests/graph/build_graph.hpp"

namespace penstock {
namespace {

using testing::batch;
using testing::GraphBuilder;

struct Tokens : GraphBuilder {
  ValueId tokens = input("tokens", {batch, 4}, DType::int64), table = parameter("table", {11, 8});

  ValueId embed(ValueId ids) {
    const ValueId embedded = op("aten::embedding", {table, ids}, {batch, 4, 8});
    named({"weight", "indices"});
    return embedded;
  }
  void cross_entropy(ValueId logits, ValueId target, std::vector<Argument> further = {}) {
    op("aten::cross_entropy_loss", {logits, target}, {});
    named({"self", "target"}, std::move(further));
  }
};

TEST(IdRange, IsTheRowsOfTheEmbedding) {
  Tokens b;
  b.embed(b.tokens);
  const auto range = id_range(b.graph, b.tokens);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->limit, 11);
  EXPECT_FALSE(range->ignored);
}

TEST(IdRange, IsFoundThroughViewsAndCopies) {
  Tokens b;
  const ValueId flat = b.op("aten::view", {b.tokens}, {batch});
  b.embed(b.op("aten::_to_copy", {flat}, {batch}));
  const auto range = id_range(b.graph, b.tokens);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->limit, 11);
}

TEST(IdRange, IsTheClassesOfALossThatReadsLabelsPaddedAndShifted) {
  Tokens b;
  const ValueId labels = b.input("labels", {batch, 4}, DType::int64);
  const ValueId logits = b.op("aten::view", {b.embed(b.tokens)}, {batch, 8});
  const ValueId padded = b.op("aten::constant_pad_nd", {labels}, {batch, 5});
  const ValueId shifted = b.op("aten::slice", {padded}, {batch, 4});
  b.cross_entropy(logits, b.op("aten::view", {shifted}, {batch}), {{"ignore_index", int64_t{-1}}});
  const auto range = id_range(b.graph, labels);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->limit, 8);
  EXPECT_EQ(range->ignored, -1);
}

TEST(IdRange, IsTheNarrowestOfThoseThatReadIt) {
  Tokens b;
  const ValueId logits = b.op("aten::view", {b.embed(b.tokens)}, {batch, 8});
  b.cross_entropy(logits, b.op("aten::view", {b.tokens}, {batch}));
  const auto range = id_range(b.graph, b.tokens);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->limit, 8);
  EXPECT_FALSE(range->ignored) << "the embedding has no row for it";
}

TEST(IdRange, IsUnknownOfAMaskAndOfWhatIsComputedFirst) {
  Tokens b;
  const ValueId mask = b.input("mask", {batch, 4}, DType::int64);
  b.op("aten::mul", {b.embed(b.op("aten::add", {b.tokens, mask}, {batch, 4})), mask},
       {batch, 4, 8});
  EXPECT_FALSE(id_range(b.graph, mask));
  EXPECT_FALSE(id_range(b.graph, b.tokens));
}

}  // namespace
}  // namespace penstock
