// Guarantees of the arithmetic on measurements: summaries, shares that add up, a line through
// points.
#include "backend/profiler/timing/statistics.hpp"

#include <gmock/gmock.h>

#include <numeric>

namespace penstock::profiler {
namespace {

using ::testing::ElementsAre;

TEST(Summarize, GivesMeanMedianInterquartileRangeAndCount) {
  const Measured measured = summarize({4, 1, 2, 3, 90});  // quartiles 2 and 4
  EXPECT_DOUBLE_EQ(measured.mean_s, 20);
  EXPECT_DOUBLE_EQ(measured.median_s, 3);
  EXPECT_DOUBLE_EQ(measured.spread_s, 2);
  EXPECT_EQ(measured.repetitions, 5);
}

TEST(Summarize, InterpolatesBetweenSamples) {
  const Measured measured = summarize({1, 2, 3, 4});  // quartiles at 0.75 and 2.25 of 0..3
  EXPECT_DOUBLE_EQ(measured.median_s, 2.5);
  EXPECT_DOUBLE_EQ(measured.spread_s, 1.5);
}

TEST(Summarize, OfNothingIsZero) { EXPECT_EQ(summarize({}).repetitions, 0); }

TEST(Apportion, AddsUpToTheTotalAndIsNearestToTheWeights) {
  EXPECT_THAT(apportion(10, {1, 1, 1}), ElementsAre(4, 3, 3));  // equal remainders: the earlier
  EXPECT_THAT(apportion(100, {0.5, 0.25, 0.25}), ElementsAre(50, 25, 25));
  EXPECT_THAT(apportion(7, {3, 0, 1}), ElementsAre(5, 0, 2));  // 5.25 and 1.75
}

TEST(Apportion, LeavesOutNegativeWeights) { EXPECT_THAT(apportion(5, {-3, 1}), ElementsAre(0, 5)); }

TEST(Apportion, GivesAllToTheFirstWhereNothingWeighs) {
  EXPECT_THAT(apportion(5, {0, 0}), ElementsAre(5, 0));
}

TEST(Apportion, AddsUpForNegativeTotalsToo) {
  const auto parts = apportion(-7, {1, 1, 3});
  EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), int64_t{0}), -7);
}

}  // namespace
}  // namespace penstock::profiler
