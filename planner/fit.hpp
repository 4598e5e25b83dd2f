// Lines and sums of rates through measurements that hold outliers. Pure functions.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <utility>
#include <vector>

namespace penstock {

/// The x >= 0 for which the sum of |A x - y| is least, by iteratively reweighted least squares
/// (Schlossmacher, "An Iterative Technique for Absolute Deviations Curve Fitting", JASA 68, 1973).
/// A y that is wrong by much pulls no harder than one that is wrong by little. A least sum is
/// reached through as many rows as there are unknowns: the nearest ones are solved exactly at the
/// end. An unknown whose least squares fall below 0 is held at 0, as is one whose column is 0.
/// Throws std::invalid_argument where the shapes differ.
Eigen::VectorXd least_absolute_deviations(const Eigen::MatrixXd& a, const Eigen::VectorXd& y);

/// offset + slope * x, both not below 0.
struct LineFit {
  double offset = 0, slope = 0;
  double residual = 0;  // median of |fit - y| / y
  double at(double x) const { return offset + slope * x; }
};

/// The least sum of relative deviations |fit - y| / y, so that small samples count as much as large
/// ones: a time that is too long by anything pulls with 1 at most, one that is too short with more.
/// Samples (x, y) with y > 0, of two different x at least; throws std::invalid_argument.
LineFit fit_line(const std::vector<std::pair<double, double>>& samples);

/// latency_s + bytes / bandwidth; bandwidth 0: the time does not grow with the bytes.
struct LinkLine {
  double latency_s = 0, bandwidth = 0;
  double residual = 0;  // as LineFit's
};
LinkLine fit_link_line(const std::vector<std::pair<int64_t, double>>& samples);

}  // namespace penstock
