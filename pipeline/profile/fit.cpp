#include "pipeline/profile/fit.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <tuple>

#include "pipeline/profile/least_deviations.hpp"

namespace penstock {

namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

using Samples = std::vector<std::pair<double, double>>;

double median_error(const LineFit& fit, const Samples& samples) {
  std::vector<double> errors;
  errors.reserve(samples.size());
  for (const auto& [x, y] : samples) errors.push_back(std::abs(fit.at(x) - y) / y);
  return median(std::move(errors));
}

/// With that offset, of the largest samples, as far down as the slope makes up most of each; the
/// line's own without any. Smaller ones that took long were held up by something else.
double slope_of_large(Samples samples, const LineFit& line) {
  std::ranges::sort(samples, std::greater());
  std::vector<std::vector<double>> rows;  // slope * row = right
  std::vector<double> right;
  for (const auto& [x, y] : samples) {
    if (y <= 2 * line.offset) break;
    rows.push_back({x / y});
    right.push_back((y - line.offset) / y);
  }
  if (rows.empty()) return line.slope;
  return least_absolute_deviations(rows, right).front();
}

}  // namespace

LineFit fit_line(const Samples& samples) {
  std::vector<std::vector<double>> rows;
  double min_x = samples.empty() ? 0 : samples.front().first, max_x = min_x;
  for (const auto& [x, y] : samples) {
    if (y <= 0) throw std::invalid_argument("a line through a sample of 0");
    rows.push_back({1 / y, x / y});
    min_x = std::min(min_x, x), max_x = std::max(max_x, x);
  }
  if (min_x == max_x) throw std::invalid_argument("a line through one point");
  const std::vector<double> x =
      least_absolute_deviations(rows, std::vector<double>(rows.size(), 1.0));
  LineFit fit{x[0], x[1], 0};
  fit.residual = median_error(fit, samples);
  return fit;
}

LinkLine fit_link_line(const std::vector<std::pair<int64_t, double>>& samples) {
  Samples points;
  points.reserve(samples.size());
  for (const auto& [bytes, seconds] : samples)
    points.emplace_back(static_cast<double>(bytes), seconds);
  LineFit line = fit_line(points);
  line.slope = slope_of_large(points, line);
  return {line.offset, line.slope > 0 ? 1 / line.slope : 0, median_error(line, points)};
}

}  // namespace penstock
