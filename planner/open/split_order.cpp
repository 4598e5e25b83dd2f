#include "planner/open/split_order.hpp"

#include <algorithm>
#include <cmath>

namespace penstock {

namespace {

/// The unit in which steps are compared.
int64_t whole_nanoseconds(double seconds) {
  if (!(seconds < 9e9)) return std::numeric_limits<int64_t>::max();
  return std::llround(seconds * 1e9);
}

}  // namespace

SplitRank SplitOrder::rank(double step_s, int64_t peak_bytes) const {
  const int64_t step = whole_nanoseconds(weight * step_s);
  return objective == SearchObjective::step ? SplitRank(complexity, step, peak_bytes)
                                            : SplitRank(complexity, peak_bytes, step);
}

double SplitOrder::most_s(const SplitRank* incumbent) const {
  if (!incumbent || std::get<0>(*incumbent) != complexity) return max_s / weight;
  const double nanoseconds = static_cast<double>(std::get<1>(*incumbent)) + 1;
  return std::min(max_s, 1e-9 * nanoseconds) / weight;
}

}  // namespace penstock
