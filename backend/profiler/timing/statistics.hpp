// Arithmetic on measurements: summaries, and factors that make parts add up.
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

}  // namespace penstock::profiler
