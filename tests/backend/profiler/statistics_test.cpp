// Guarantees of the arithmetic on measurements: summaries, shares that add up, a line through
// points.
#include "backend/profiler/statistics.hpp"

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

TEST(FitLink, FindsTheLineThatTheSamplesLieOn) {
  std::vector<std::pair<int64_t, double>> samples;
  for (int64_t bytes = 16; bytes <= 1 << 24; bytes *= 8)
    samples.emplace_back(bytes, 6e-5 + bytes / 2e9);
  const LinkFit fit = fit_link(samples);
  // The normal equations lose about the square of the ratio of the largest to the smallest term,
  // (2^24 / 2e9 / 6e-5)^2 = 2e4, times the 1e-16 of a double.
  EXPECT_NEAR(fit.latency_s, 6e-5, 6e-5 * 1e-9);
  EXPECT_NEAR(fit.bandwidth, 2e9, 2e9 * 1e-9);
  EXPECT_LT(fit.residual, 1e-9);
}

TEST(FitLink, CountsSmallMessagesAsMuchAsLargeOnes) {
  // One large sample is 10 % off: the latency, which the small ones give, hardly moves.
  const LinkFit fit =
      fit_link({{16, 1e-4}, {128, 1e-4}, {1 << 20, 1.1e-3}, {1 << 24, 1.1 * 16.1e-3}});
  EXPECT_NEAR(fit.latency_s, 1e-4, 1e-5);
}

TEST(FitLink, NeverGivesANegativeLatencyOrBandwidth) {
  const LinkFit falling = fit_link({{16, 2e-4}, {1024, 1e-4}});
  EXPECT_EQ(falling.bandwidth, 0);
  EXPECT_GT(falling.latency_s, 0);
  const LinkFit steep = fit_link({{1000, 1e-6}, {2000, 4e-6}});
  EXPECT_EQ(steep.latency_s, 0);
  EXPECT_GT(steep.bandwidth, 0);
}

}  // namespace
}  // namespace penstock::profiler
