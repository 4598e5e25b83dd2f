// Fits find the line through measurements of which some are wrong.
#include "pipeline/profile/fit.hpp"

#include <gtest/gtest.h>

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "pipeline/profile/least_deviations.hpp"

namespace penstock {
namespace {

/// Two rows are solved exactly: what is lost is the rounding of their quotients, 2^-53 times the
/// condition of two points (below 1e4 here).
constexpr double line_rounding = 1e-11;

std::vector<std::pair<double, double>> line(double offset, double slope, int count) {
  std::vector<std::pair<double, double>> samples;
  for (int i = 1; i <= count; ++i) samples.emplace_back(i, offset + slope * i);
  return samples;
}

TEST(FitLine, IsExactOnALine) {
  const LineFit fit = fit_line(line(3e-3, 2e-4, 5));
  EXPECT_NEAR(fit.offset / 3e-3, 1, line_rounding);
  EXPECT_NEAR(fit.slope / 2e-4, 1, line_rounding);
  EXPECT_NEAR(fit.residual, 0, line_rounding);
}

TEST(FitLine, IgnoresThreeSamplesOfTenThatTookTooLong) {
  auto samples = line(3e-3, 2e-4, 10);
  samples[1].second *= 20;
  samples[4].second *= 3;
  samples[8].second *= 2;
  const LineFit fit = fit_line(samples);
  EXPECT_NEAR(fit.offset / 3e-3, 1, line_rounding);
  EXPECT_NEAR(fit.slope / 2e-4, 1, line_rounding);
  EXPECT_NEAR(fit.residual, 0, line_rounding);  // the median of ten
}

TEST(FitLine, KeepsTheOffsetAndTheSlopeAboveZero) {
  const LineFit falling = fit_line({{1, 4}, {2, 3}, {3, 2}});
  EXPECT_EQ(falling.slope, 0);
  EXPECT_NEAR(falling.offset, 3, 1);  // relative deviations: the best constant lies among them
  const LineFit steep = fit_line({{1, 1}, {2, 3}, {3, 5}});
  EXPECT_EQ(steep.offset, 0);
  EXPECT_GT(steep.slope, 1);
}

TEST(FitLine, SaysHowFarTheMedianSampleIsOff) {
  // The line through the outer four is 1 + x; of five relative errors the third counts.
  const LineFit fit = fit_line({{1, 2}, {2, 3}, {4, 10}, {8, 9}, {16, 17}});
  EXPECT_NEAR(fit.offset, 1, line_rounding);
  EXPECT_NEAR(fit.slope, 1, line_rounding);
  EXPECT_NEAR(fit.residual, 0, line_rounding);
}

TEST(FitLine, RefusesWhatNoLineGoesThrough) {
  EXPECT_THROW(fit_line({}), std::invalid_argument);
  EXPECT_THROW(fit_line({{1, 1}}), std::invalid_argument);
  EXPECT_THROW(fit_line({{1, 1}, {1, 2}}), std::invalid_argument);
  EXPECT_THROW(fit_line({{1, 1}, {2, 0}}), std::invalid_argument);
}

TEST(FitLink, FindsLatencyAndBandwidthBesideOutliers) {
  std::vector<std::pair<int64_t, double>> samples;
  for (int64_t bytes = 16; bytes <= 1 << 24; bytes *= 8)
    samples.emplace_back(bytes, 50e-6 + static_cast<double>(bytes) / 2e9);
  samples[2].second *= 4;  // the machine did something else
  samples[5].second *= 2;
  const LinkLine fit = fit_link_line(samples);
  // The two rows differ by 8 in size at least, and the latency is all of the smallest.
  EXPECT_NEAR(fit.latency_s / 50e-6, 1, 1e-9);
  EXPECT_NEAR(fit.bandwidth / 2e9, 1, 1e-9);
  EXPECT_NEAR(fit.residual, 0, 1e-9);
}

// Measured on a machine that was busy with something else at first. The latency is the 8192 bytes',
// and from there the largest message is 1.2 GB/s; by the 16 bytes alone it would be 13 kB/s.
TEST(FitLink, DoesNotTakeSmallMessagesThatWereHeldUpForTheRate) {
  const LinkLine fit = fit_link_line({{16, 1668e-6},
                                      {128, 1627e-6},
                                      {1024, 2021e-6},
                                      {8192, 449e-6},
                                      {65536, 298e-6},
                                      {524288, 874e-6}});
  EXPECT_GT(fit.bandwidth, 524288 / 874e-6);
}

TEST(FitLink, FindsTheRateOfALinkThatLetsABurstPassAtOnce) {
  constexpr double rate = 6e6, burst = 32768;
  std::vector<std::pair<int64_t, double>> samples;
  for (int64_t bytes = 16; bytes <= 4 << 20; bytes *= 8) {
    const double late = std::max(0.0, static_cast<double>(bytes) - burst);
    samples.emplace_back(bytes, 50e-6 + late / rate);
  }
  const LinkLine fit = fit_link_line(samples);
  EXPECT_NEAR(fit.latency_s / 50e-6, 1, 1e-9);
  // What a message of 64 KB, 512 KB or 4 MB shows: the burst's share of the second makes it faster.
  EXPECT_GE(fit.bandwidth / rate, 1);
  EXPECT_LE(fit.bandwidth / rate, 1 / (1 - burst / (1 << 19)) + line_rounding);
}

TEST(FitLink, OfATimeThatDoesNotGrowHasNoBandwidth) {
  const LinkLine fit = fit_link_line({{16, 1e-4}, {1024, 1e-4}, {65536, 1e-4}});
  EXPECT_NEAR(fit.latency_s / 1e-4, 1, line_rounding);
  // Either no slope at all, or one so small that 64 KiB do not show it.
  EXPECT_TRUE(fit.bandwidth == 0 || 65536 / fit.bandwidth < 1e-4 * line_rounding);
}

TEST(LeastAbsoluteDeviations, HoldsAnUnknownWithoutMeasurementsAtZero) {
  const std::vector<double> x = least_absolute_deviations({{1, 0}, {2, 0}, {3, 0}}, {2, 4, 60});
  // Weighted median: the third row is worth as much as the other two, and the sum is flat between.
  EXPECT_GE(x[0], 2 * (1 - line_rounding));
  EXPECT_LE(x[0], 20);
  EXPECT_EQ(x[1], 0);
}

TEST(LeastAbsoluteDeviations, RefusesRowsWithoutAMeasurement) {
  EXPECT_THROW(least_absolute_deviations({{1}, {1}, {1}}, {1, 1}), std::invalid_argument);
  EXPECT_THROW(least_absolute_deviations({{1}, {1, 2}}, {1, 1}), std::invalid_argument);
}

TEST(LeastAbsoluteDeviations, IsNoWorseThanAnyOfManyOthers) {
  Eigen::MatrixXd a(12, 3);
  std::vector<std::vector<double>> rows;
  Eigen::VectorXd y(12);
  for (int i = 0; i < 12; ++i) {
    a.row(i) << 1, 1 + i % 5, 1 + (i * 7) % 11;
    rows.push_back({a(i, 0), a(i, 1), a(i, 2)});
    y(i) = 0.5 + 2.0 * (1 + i % 5) + 0.25 * (1 + (i * 7) % 11) + (i % 4 == 0 ? 30 : 0.01 * (i % 3));
  }
  const std::vector<double> found = least_absolute_deviations(rows, {y.begin(), y.end()});
  const Eigen::Vector3d x(found.data());
  const double sum = (a * x - y).lpNorm<1>();
  for (int d0 = -2; d0 <= 2; ++d0)
    for (int d1 = -2; d1 <= 2; ++d1)
      for (int d2 = -2; d2 <= 2; ++d2) {
        const Eigen::VectorXd other = x + 1e-3 * Eigen::Vector3d(d0, d1, d2);
        EXPECT_GE((a * other - y).lpNorm<1>(), sum * (1 - line_rounding));
      }
}

}  // namespace
}  // namespace penstock
