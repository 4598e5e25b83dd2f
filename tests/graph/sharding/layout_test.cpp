// Layouts, the rule of views and conversions, against what each part holds element by element.
#include "graph/sharding/layout.hpp"

#include <gtest/gtest.h>

#include "tests/graph/sharding/held.hpp"

namespace penstock::sharding {
namespace {

using testing::held_elements;
using testing::Numbers;

constexpr int64_t sizes[] = {12, 24, 36, 48, 60, 72, 96, 144};

TEST(Layout, PrintsAndParses) {
  for (const Layout& layout : {Layout::identical(), Layout::replicated(), Layout::partial(),
                               Layout::split(0), Layout::split(1, 3)})
    EXPECT_EQ(Layout::parse(layout.str()), layout) << layout.str();
  EXPECT_EQ(Layout::split(1).str(), "S(1)");
  EXPECT_EQ(Layout::split(1, 3).str(), "S(1, 3)");
  for (const char* text : {"", "Q", "I ", "S", "S()", "S(-1)", "S(1, 0)", "S(1, 1)", "S(1,3)",
                           "S(1, 3) ", "S(01)", "S(99999999999999999999)"})
    EXPECT_EQ(Layout::parse(text), std::nullopt) << text;
}

TEST(Layout, OfAGradientIsItsDual) {
  EXPECT_EQ(Layout::identical().gradient(), Layout::identical());
  EXPECT_EQ(Layout::replicated().gradient(), Layout::partial());
  EXPECT_EQ(Layout::partial().gradient(), Layout::replicated());
  EXPECT_EQ(Layout::split(2, 3).gradient(), Layout::split(2, 3));
}

TEST(Layout, SplitsQueriesKeysAndValuesInThreeBlocks) {
  const Layout columns = Layout::split(1, 3);
  EXPECT_EQ(held_ranges(columns, {4, 12}, 2, 1), (std::vector<Range>{{2, 4}, {6, 8}, {10, 12}}));
  EXPECT_EQ(local_shape(columns, {4, 12}, 2), (Shape{4, 6}));
}

TEST(Layout, RefusesWhatDoesNotDivide) {
  EXPECT_FALSE(fits(Layout::split(0), {257, 8}, 2));
  EXPECT_FALSE(fits(Layout::split(1, 3), {4, 8}, 2));
  EXPECT_FALSE(fits(Layout::split(2), {4, 8}, 2));
  EXPECT_THROW(local_shape(Layout::split(0), {257, 8}, 2), std::invalid_argument);
  EXPECT_THROW(held_ranges(Layout::partial(), {4, 8}, 2, 0), std::invalid_argument);
  EXPECT_THROW(Layout::split(-1), std::invalid_argument);
  EXPECT_THROW(Layout::split(0, 0), std::invalid_argument);
}

TEST(Layout, GivesEachElementToOnePart) {
  std::mt19937 random(1);
  for (const int64_t elements : sizes)
    for (const int parts : {2, 3, 4}) {
      const Shape shape = testing::random_shape(elements, random);
      for (const Layout& split : testing::splits(shape, parts)) {
        Numbers all;
        for (int part = 0; part < parts; ++part) {
          const Numbers held = held_elements(split, shape, parts, part);
          EXPECT_EQ(held.size(), testing::count(local_shape(split, shape, parts)));
          all.insert(all.end(), held.begin(), held.end());
        }
        std::sort(all.begin(), all.end());
        Numbers expected(elements);
        for (int64_t i = 0; i < elements; ++i) expected[i] = i;
        EXPECT_EQ(all, expected) << split.str();
      }
    }
}

std::vector<Numbers> held_by_all(const Layout& split, const Shape& shape, int parts) {
  std::vector<Numbers> held;
  for (int part = 0; part < parts; ++part) held.push_back(held_elements(split, shape, parts, part));
  return held;
}

/// The split of `to` that holds the same elements, found by trying all.
std::optional<Layout> tried(const std::vector<Numbers>& held, const Shape& to, int parts) {
  std::optional<Layout> found;
  for (const Layout& candidate : testing::splits(to, parts))
    if (held_by_all(candidate, to, parts) == held) {
      EXPECT_FALSE(found) << "two splits hold the same";
      found = candidate;
    }
  return found;
}

TEST(ViewRule, AllowsWhatHoldsTheSameElementsAndRefusesNothingElse) {
  std::mt19937 random(2);
  int asked = 0, survived = 0, without_blocks = 0;
  for (int round = 0; round < 1000; ++round)
    for (const int parts : {2, 3, 4}) {
      const int64_t elements = sizes[random() % std::size(sizes)];
      const Shape from = testing::random_shape(elements, random);
      const Shape to = testing::random_shape(elements, random);
      for (const Layout& split : testing::splits(from, parts)) {
        const auto expected = tried(held_by_all(split, from, parts), to, parts);
        EXPECT_EQ(view_split(split, from, to, parts), expected) << split.str();
        ++asked;
        survived += expected.has_value();
        without_blocks += split.blocks() == 1 && expected && expected->blocks() == 1;
      }
    }
  EXPECT_GT(asked, 10000);
  EXPECT_GT(survived, 2 * without_blocks) << "blocks are what lets splits survive";
  EXPECT_LT(survived, asked);
  RecordProperty("asked", asked);
  RecordProperty("survived", survived);
  RecordProperty("without_blocks", without_blocks);
}

TEST(ViewRule, MergesBatchAndHeadsIntoBlocks) {
  // 3 samples of 4 heads as 12 rows: each rank has its heads of each sample, blocks of 4 rows.
  EXPECT_EQ(view_split(Layout::split(1), {3, 4, 5}, {12, 5}, 2), Layout::split(0, 3));
  EXPECT_EQ(view_split(Layout::split(0, 3), {12, 5}, {3, 4, 5}, 2), Layout::split(1));
  EXPECT_EQ(view_split(Layout::split(0), {12, 5}, {3, 4, 5}, 2), std::nullopt);
}

}  // namespace
}  // namespace penstock::sharding
