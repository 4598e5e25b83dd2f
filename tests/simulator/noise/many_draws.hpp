// Means of many draws, and how far they may be off.
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace penstock::testing {

inline constexpr int64_t many = 20'000;

/// Means of so many draws are off by more than four standard errors once in 16000 times, with a
/// fixed seed never or always.
inline double four_errors(double variance, int64_t count = many) {
  return 4 * std::sqrt(variance / static_cast<double>(count));
}

inline double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace penstock::testing
