// The fit that outliers do not pull away. A pure function.
#pragma once

#include <vector>

namespace penstock {

/// The x >= 0 for which the sum of |A x - y| over the rows of A is least, by iteratively reweighted
/// least squares (Schlossmacher, "An Iterative Technique for Absolute Deviations Curve Fitting", JASA 68, 1973).
/// A y that is wrong by much pulls no harder than one that is wrong by little. A least sum is
/// reached through as many rows as there are unknowns: the nearest ones are solved exactly at the
/// end. An unknown whose least squares fall below 0 is held at 0, as is one whose column is 0.
/// Throws std::invalid_argument where the shapes differ.
std::vector<double> least_absolute_deviations(const std::vector<std::vector<double>>& a,
                                              const std::vector<double>& y);

}  // namespace penstock
