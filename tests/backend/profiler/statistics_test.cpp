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

}  // namespace
}  // namespace penstock::profiler
