#include "backend/profiler/timing/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/quantile.hpp"

namespace penstock::profiler {

Measured summarize(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  return {.mean_s = sum / static_cast<double>(samples.size()),
          .median_s = quantile(samples, 0.5),
          .spread_s = quantile(samples, 0.75) - quantile(samples, 0.25),
          .repetitions = static_cast<int>(samples.size())};
}

Measured scaled(const Measured& measured, Factor factor) {
  return {.mean_s = measured.mean_s * factor.device,
          .median_s = measured.median_s * factor.device,
          .spread_s = measured.spread_s * factor.device,
          .repetitions = measured.repetitions,
          .host_s = measured.host_s * factor.host};
}

double ratio(double whole, double parts) { return parts > 0 ? whole / parts : 1; }

}  // namespace penstock::profiler
