// Quantiles of sorted values. A pure function.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace penstock {

/// By linear interpolation between neighbours; `sorted` is not empty, `share` in [0, 1].
inline double quantile(const std::vector<double>& sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

}  // namespace penstock
