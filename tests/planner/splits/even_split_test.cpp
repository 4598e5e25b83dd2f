// The split that a search begins with.
#include "planner/splits/even_split.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

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

/// The least that the largest stage of any split has.
int64_t least_of_all(int unit, int stage, int units, int stages,
                     const std::function<int64_t(int, int, int)>& bytes) {
  if (stage + 1 == stages) return bytes(stage, unit, units);
  int64_t least = INT64_MAX;
  for (int end = unit + 1; end <= units - (stages - stage - 1); ++end) {
    least = std::min(least, std::max(bytes(stage, unit, end),
                                     least_of_all(end, stage + 1, units, stages, bytes)));
  }
  return least;
}

TEST(EvenMemorySplit, HasTheLeastLargestStage) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const int stages = 1 + trial % 4, units = stages + trial % 5;
    std::vector<int64_t> each;
    for (int unit = 0; unit < units; ++unit) each.push_back(random() % 100);
    // A stage holds more of its units the earlier it is, as in 1F1B.
    const auto bytes = [&](int stage, int begin, int end) {
      return (stages - stage) *
             std::accumulate(each.begin() + begin, each.begin() + end, int64_t{7});
    };
    const std::vector<int> begins = even_memory_split(units, stages, bytes);
    ASSERT_EQ(begins.size(), static_cast<size_t>(stages));
    int64_t largest = 0;
    for (int stage = 0; stage < stages; ++stage) {
      const auto s = static_cast<size_t>(stage);
      const int end = stage + 1 < stages ? begins[s + 1] : units;
      ASSERT_LT(begins[s], end);
      largest = std::max(largest, bytes(stage, begins[s], end));
    }
    EXPECT_EQ(largest, least_of_all(0, 0, units, stages, bytes));
  }
}

}  // namespace
}  // namespace penstock::test
