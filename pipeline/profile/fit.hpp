// Lines through measurements that hold outliers. Pure functions.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace penstock {

/// offset + slope * x, both not below 0.
struct LineFit {
  double offset = 0, slope = 0;
  double residual = 0;  // median of |fit - y| / y
  double at(double x) const { return offset + slope * x; }
};

/// The least sum of relative deviations |fit - y| / y (least_deviations.hpp), so that small samples
/// count as much as large ones: a time that is too long by anything pulls with 1 at most, one that
/// is too short with more. Samples (x, y) with y > 0, of two different x at least; throws
/// std::invalid_argument.
LineFit fit_line(const std::vector<std::pair<double, double>>& samples);

/// latency_s + bytes / bandwidth; bandwidth 0: the time does not grow with the bytes.
struct LinkLine {
  double latency_s = 0, bandwidth = 0;
  double residual = 0;  // as LineFit's
};
/// The latency is that of fit_line, the bandwidth the one with the least sum of relative deviations
/// of the largest messages, down to the first that takes no more than twice as long: where a link
/// lets a burst pass at once, the small ones do not show its rate, and where something held these
/// up they show nothing. Throws as fit_line.
LinkLine fit_link_line(const std::vector<std::pair<int64_t, double>>& samples);

}  // namespace penstock
