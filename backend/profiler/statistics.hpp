// Arithmetic on measurements: summaries, scaling, whole bytes that add up, a line through points.
// Pure functions; times in seconds.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "pipeline/profile.hpp"

namespace penstock::profiler {

/// Mean, median, interquartile range (linear interpolation between the sorted samples) and count.
/// All zero for no samples.
Measured summarize(std::vector<double> samples);

/// Every time multiplied by `factor`; the count of repetitions stays.
Measured scaled(const Measured& measured, double factor);

/// The quotient, or 1 where the denominator is 0: a factor that scales parts to their whole.
double ratio(double whole, double parts);

/// Integers that add up to `total` exactly and are as near as possible to total * weight / sum
/// (largest remainder; equal remainders go to the earlier entry). Negative weights count as 0;
/// where all weights are 0 the first entry takes everything. `weights` must not be empty.
std::vector<int64_t> apportion(int64_t total, const std::vector<double>& weights);

/// seconds = latency_s + bytes / bandwidth.
struct LinkFit {
  double latency_s = 0, bandwidth = 0;  // bandwidth 0: the time does not grow with the bytes
  double residual = 0;                  // median of |fit - sample| / sample
};

/// Least squares on relative errors (weights 1 / seconds^2), so that small messages count as much
/// as large ones, with latency and 1 / bandwidth not below 0. Needs two samples of different size.
LinkFit fit_link(const std::vector<std::pair<int64_t, double>>& samples);

}  // namespace penstock::profiler
