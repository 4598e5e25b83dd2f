#include "planner/paths/path_game.hpp"

#include <ClpSimplex.hpp>
#include <algorithm>
#include <numeric>

namespace penstock {

namespace {

std::vector<double> not_negative(const double* from, int count, double factor) {
  std::vector<double> values(static_cast<size_t>(count));
  std::transform(from, from + count, values.begin(),
                 [&](double value) { return std::max(0.0, value * factor); });
  return values;
}

}  // namespace

/// Columns: the length of the longest path, what each limit misses, then places. Rows: places of
/// each cut mix to 1, cuts are a unit apart, limits, then paths.
PathGame::PathGame(int cuts, double scale, const std::vector<double>& at_least)
    : scale_(scale),
      cuts_(cuts),
      limits_(static_cast<int>(at_least.size())),
      lp_(std::make_unique<ClpSimplex>()) {
  lp_->setLogLevel(0);
  lp_->scaling(0);
  lp_->resize(first_path(), 0);
  for (int cut = 0; cut < cuts_; ++cut) lp_->setRowBounds(cut, 1, 1);
  for (int cut = 0; cut + 1 < cuts_; ++cut) lp_->setRowBounds(cuts_ + cut, 1, COIN_DBL_MAX);
  for (int i = 0; i < limits_; ++i)
    lp_->setRowBounds(2 * cuts_ - 1 + i, at_least[static_cast<size_t>(i)], COIN_DBL_MAX);
  lp_->addColumn(0, nullptr, nullptr, -COIN_DBL_MAX, COIN_DBL_MAX, 1);
  for (int i = 0; i < limits_; ++i) {
    const int row = 2 * cuts_ - 1 + i;
    const double one = 1;
    lp_->addColumn(1, &row, &one, 0, COIN_DBL_MAX, 1);
  }
}

PathGame::~PathGame() = default;

void PathGame::add_place(int cut, int unit, const std::vector<double>& values) {
  std::vector<int> rows{cut};
  std::vector<double> elements{1};
  const auto add = [&](int row, double value) {
    if (value == 0) return;
    rows.push_back(row);
    elements.push_back(value);
  };
  if (cut > 0) add(cuts_ + cut - 1, unit);
  if (cut + 1 < cuts_) add(cuts_ + cut, -unit);
  for (int i = 0; i < static_cast<int>(values.size()); ++i) {
    const double value = values[static_cast<size_t>(i)];
    add(2 * cuts_ - 1 + i, i < limits_ ? value : -value / scale_);
  }
  lp_->addColumn(static_cast<int>(rows.size()), rows.data(), elements.data(), 0, COIN_DBL_MAX, 0);
  ++places_;
}

void PathGame::add_path(double ends, const std::vector<double>& seconds) {
  std::vector<int> columns{0};
  std::vector<double> elements{1};
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (seconds[i] == 0) continue;
    columns.push_back(1 + limits_ + static_cast<int>(i));
    elements.push_back(-seconds[i] / scale_);
  }
  lp_->addRow(static_cast<int>(columns.size()), columns.data(), elements.data(), ends / scale_,
              COIN_DBL_MAX);
  ++paths_;
}

void PathGame::solve() { lp_->dual(); }

double PathGame::seconds() const { return lp_->objectiveValue() * scale_; }

std::vector<double> PathGame::limit_weights() const {
  return not_negative(lp_->dualRowSolution() + 2 * cuts_ - 1, limits_, scale_);
}

std::vector<double> PathGame::path_weights() const {
  std::vector<double> weights = not_negative(lp_->dualRowSolution() + first_path(), paths_, 1);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights)
    weight = sum > 0 ? weight / sum : 1.0 / static_cast<double>(paths_);
  return weights;
}

std::vector<double> PathGame::place_weights() const {
  return not_negative(lp_->primalColumnSolution() + 1 + limits_, places_, 1);
}

}  // namespace penstock
