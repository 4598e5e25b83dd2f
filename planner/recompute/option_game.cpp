#include "planner/recompute/option_game.hpp"

#include <ClpSimplex.hpp>
#include <algorithm>
#include <numeric>

namespace penstock {

namespace {

/// So many of its numbers are copied in the time of a row or column of a step (measured with 830
/// paths and 470 options).
constexpr int64_t copied_for_one = 32;

}  // namespace

/// Columns: the length of the longest path, then options. Rows: those of each rank mix to 1, then
/// paths.
OptionGame::OptionGame(int ranks) : ranks_(ranks), lp_(std::make_unique<ClpSimplex>()) {
  lp_->setLogLevel(0);
  lp_->scaling(0);
  lp_->resize(ranks_, 0);
  for (int rank = 0; rank < ranks_; ++rank) lp_->setRowBounds(rank, 1, 1);
  lp_->addColumn(0, nullptr, nullptr, -COIN_DBL_MAX, COIN_DBL_MAX, 1);
}

OptionGame::~OptionGame() = default;

int OptionGame::add_option(int rank, const std::vector<double>& longer_s) {
  std::vector<int> rows{rank};
  std::vector<double> elements{1};
  for (size_t path = 0; path < longer_s.size(); ++path) {
    rows.push_back(ranks_ + static_cast<int>(path));
    elements.push_back(-longer_s[path]);
  }
  lp_->addColumn(static_cast<int>(rows.size()), rows.data(), elements.data(), 0, 1, 0);
  return options_++;
}

void OptionGame::add_path(double seconds, const std::vector<double>& longer_s) {
  std::vector<int> columns{0};
  std::vector<double> elements{1};
  for (size_t option = 0; option < longer_s.size(); ++option) {
    columns.push_back(1 + static_cast<int>(option));
    elements.push_back(-longer_s[option]);
  }
  lp_->addRow(static_cast<int>(columns.size()), columns.data(), elements.data(), seconds,
              COIN_DBL_MAX);
}

void OptionGame::solve(const std::vector<char>& allowed) {
  for (int option = 0; option < options_; ++option)
    lp_->setColumnUpper(1 + option, allowed[static_cast<size_t>(option)] ? 1 : 0);
  lp_->dual();
  const int64_t rows = lp_->numberRows(), columns = lp_->numberColumns();
  work_ += lp_->numberIterations() * (rows + columns) + rows * columns / copied_for_one;
}

double OptionGame::seconds() const { return lp_->objectiveValue(); }

double OptionGame::share(int option) const {
  return std::max(0.0, lp_->primalColumnSolution()[1 + option]);
}

std::vector<double> OptionGame::path_weights() const {
  const int paths = lp_->numberRows() - ranks_;
  std::vector<double> weights(static_cast<size_t>(paths));
  const double* duals = lp_->dualRowSolution() + ranks_;
  std::transform(duals, duals + paths, weights.begin(),
                 [](double dual) { return std::max(0.0, dual); });
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight = sum > 0 ? weight / sum : 1.0 / paths;
  return weights;
}

}  // namespace penstock
