#include "planner/paths/dealt_hull.hpp"

#include <ClpSimplex.hpp>
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace penstock {

/// Rows: the mean of units of each stage, then that weights sum to 1. Columns: what a mean has more
/// and less than any mixture of ways, then the weights.
DealtHull::DealtHull(std::vector<Way> ways, double steepest)
    : ways_(std::move(ways)), lp_(std::make_unique<ClpSimplex>()) {
  const auto stages = static_cast<int>(ways_.front().units.size());
  std::vector<CoinBigIndex> starts{0};
  std::vector<int> rows;
  std::vector<double> elements, costs;
  const auto end_column = [&](double cost) {
    starts.push_back(static_cast<CoinBigIndex>(rows.size()));
    costs.push_back(cost);
  };
  const auto add = [&](int row, double element) {
    rows.push_back(row);
    elements.push_back(element);
  };
  for (int stage = 0; stage < stages; ++stage) {
    for (const double sign : {1.0, -1.0}) {
      add(stage, sign);
      end_column(steepest);
    }
  }
  for (const Way& way : ways_) {
    for (int stage = 0; stage < stages; ++stage) add(stage, way.units[static_cast<size_t>(stage)]);
    add(stages, 1);
    end_column(way.seconds);
  }
  std::vector<double> means(static_cast<size_t>(stages), 0.0);
  means.push_back(1);
  lp_->setLogLevel(0);
  lp_->loadProblem(static_cast<int>(costs.size()), stages + 1, starts.data(), rows.data(),
                   elements.data(), nullptr, nullptr, costs.data(), means.data(), means.data());
}

DealtHull::DealtHull(DealtHull&&) noexcept = default;
DealtHull::~DealtHull() = default;

/// The solver says how steep it is; how high follows from the ways.
DealtHull::Plane DealtHull::below(const std::vector<double>& units) {
  for (size_t stage = 0; stage < units.size(); ++stage)
    lp_->setRowBounds(static_cast<int>(stage), units[stage], units[stage]);
  lp_->dual();
  const double* duals = lp_->dualRowSolution();
  Plane plane{std::vector<double>(duals, duals + units.size()),
              std::numeric_limits<double>::infinity()};
  for (const Way& way : ways_)
    plane.at_none = std::min(
        plane.at_none,
        std::inner_product(way.units.begin(), way.units.end(), plane.slopes.begin(), way.seconds,
                           std::plus(), [](int count, double slope) { return -slope * count; }));
  return plane;
}

}  // namespace penstock
