// The split that a search begins with.
#include "planner/splits/even_split.hpp"

#include <gtest/gtest.h>

#include "tests/planner/chains.hpp"

namespace penstock::test {
namespace {

TEST(EvenSplit, GivesEveryStageAUnitAndAboutTheSameLoad) {
  EXPECT_EQ(even_split({1, 1, 1, 1, 1, 1}, {0, 1, 2}, equal_ranks(3)), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(even_split({5, 1, 1, 1}, {0, 1}, equal_ranks(2)), (std::vector<int>{0, 1}));
  EXPECT_EQ(even_split({1, 1, 1, 9}, {0, 1, 2, 3}, equal_ranks(4)), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(even_split({9, 0, 0, 0}, {0, 1, 2}, equal_ranks(3)).size(), 3U);
}

TEST(EvenSplit, StagesOfOneRankMakeUpForOneAnother) {
  // Six equal units in four stages: each rank has three, not two and four.
  EXPECT_EQ(even_split({1, 1, 1, 1, 1, 1}, {0, 1, 0, 1}, equal_ranks(2)),
            (std::vector<int>{0, 1, 2, 4}));
  EXPECT_EQ(even_split({1, 1, 1, 1, 1, 1}, {0, 1, 1, 0}, equal_ranks(2)),
            (std::vector<int>{0, 1, 2, 4}));
}

}  // namespace
}  // namespace penstock::test
