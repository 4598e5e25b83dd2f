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

std::vector<int64_t> apportion(int64_t total, const std::vector<double>& weights) {
  std::vector<double> exact(weights.size());
  std::ranges::transform(weights, exact.begin(), [](double w) { return std::max(w, 0.0); });
  double sum = std::accumulate(exact.begin(), exact.end(), 0.0);
  if (sum == 0) sum = exact[0] = 1;
  std::vector<int64_t> parts(weights.size());
  for (size_t i = 0; i < exact.size(); ++i) {
    exact[i] *= static_cast<double>(total) / sum;
    parts[i] = static_cast<int64_t>(std::floor(exact[i]));
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater{},
                           [&](size_t i) { return exact[i] - static_cast<double>(parts[i]); });
  int64_t left = total - std::accumulate(parts.begin(), parts.end(), int64_t{0});
  for (size_t k = 0; left > 0; k = (k + 1) % order.size(), --left) ++parts[order[k]];
  for (size_t k = 0; left < 0; k = (k + 1) % order.size(), ++left) --parts[order[k]];
  return parts;
}

}  // namespace penstock::profiler
