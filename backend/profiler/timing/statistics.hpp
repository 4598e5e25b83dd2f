// Arithmetic on measurements: summaries, scaling, whole bytes that add up, a line through points.
// Pure functions; times in seconds.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

/// Mean, median, interquartile range (linear interpolation between the sorted samples) and count.
/// All zero for no samples.
Measured summarize(std::vector<double> samples);

/// Factors that make parts add up to their whole: of times of the device, and of its host.
struct Factor {
  double device = 1, host = 1;
};

/// Multiplies every time by its factor; the count of repetitions stays.
Measured scaled(const Measured& measured, Factor factor);

/// The quotient, or 1 where the denominator is 0: a factor that scales parts to their whole.
double ratio(double whole, double parts);

/// Integers that add up to `total` exactly and are as near as possible to total * weight / sum
/// (largest remainder; equal remainders go to the earlier entry). Negative weights count as 0;
/// where all weights are 0 the first entry takes everything. `weights` must not be empty.
std::vector<int64_t> apportion(int64_t total, const std::vector<double>& weights);

}  // namespace penstock::profiler
