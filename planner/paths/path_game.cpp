#include "planner/paths/path_game.hpp"

#include <ClpSimplex.hpp>
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace penstock {

namespace {

/// The solver's, for an estimate.
constexpr int most_steps = 50;

std::vector<double> not_negative(const double* from, int count) {
  std::vector<double> values(static_cast<size_t>(count));
  std::transform(from, from + count, values.begin(),
                 [](double value) { return std::max(0.0, value); });
  return values;
}

}  // namespace

/// Columns: the length of the longest path, what each rank has too little and too much, by how much
/// backwards of each stage take longer and how much each rank holds too much, then places. Rows:
/// places of each cut mix to 1, units of stages, units of ranks, then paths and memory.
PathGame::PathGame(const SplitBox& box, const std::vector<int>& rank_of_stage, int units,
                   double scale, bool recompute)
    : rank_of_stage_(rank_of_stage),
      ranks_(static_cast<int>(box.ranks.low.size())),
      units_(units),
      scale_(scale),
      recompute_(recompute),
      lp_(std::make_unique<ClpSimplex>()) {
  lp_->setLogLevel(0);
  lp_->scaling(0);
  lp_->resize(first_added(), 0);
  for (int cut = 0; cut + 1 < stages(); ++cut) lp_->setRowBounds(cut, 1, 1);
  for (int stage = 0; stage < stages(); ++stage) {
    const auto s = static_cast<size_t>(stage);
    limit(stage_row(stage), box.stages.low[s], box.stages.high[s]);
  }
  add_column({}, {}, -COIN_DBL_MAX, 1);
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto r = static_cast<size_t>(rank);
    const int row = rank_row(rank);
    limit(row, box.ranks.low[r], box.ranks.high[r]);
    for (const double sign : {1.0, -1.0}) add_column({row}, {sign}, 0, 1);
  }
  const auto add_columns = [&](int count, double cost) {
    for (; count > 0; --count) add_column({}, {}, 0, cost);
  };
  if (!recompute_) return;
  add_columns(stages(), 0);
  add_columns(ranks_, 2);  // more than what is left out of a step's backwards
}

PathGame::~PathGame() = default;

void PathGame::Pending::add(const std::vector<int>& at, const std::vector<double>& values,
                            double low, double cost) {
  indices.insert(indices.end(), at.begin(), at.end());
  elements.insert(elements.end(), values.begin(), values.end());
  starts.push_back(static_cast<int>(indices.size()));
  lows.push_back(low);
  costs.push_back(cost);
}

void PathGame::add_column(const std::vector<int>& rows, const std::vector<double>& elements,
                          double low, double cost) {
  if (rows_.count() > 0) add_pending();
  columns_.add(rows, elements, low, cost);
}

void PathGame::add_pending() {
  const Pending rows = std::exchange(rows_, {}), columns = std::exchange(columns_, {});
  const std::vector<double> highs(rows.lows.size() + columns.lows.size(), COIN_DBL_MAX);
  if (rows.count() > 0)
    lp_->addRows(rows.count(), rows.lows.data(), highs.data(), rows.starts.data(),
                 rows.indices.data(), rows.elements.data());
  if (columns.count() > 0)
    lp_->addColumns(columns.count(), columns.lows.data(), highs.data(), columns.costs.data(),
                    columns.starts.data(), columns.indices.data(), columns.elements.data());
}

/// The end of the last stage, which no place says, is left out of its row and of its rank's.
void PathGame::limit(int row, double low, double high) {
  const bool has_end = row == stage_row(stages() - 1) || row == rank_row(rank_of_stage_.back());
  const double end = has_end ? units_ : 0;
  lp_->setRowBounds(row, low - end, high - end);
}

void PathGame::add_place(int stage, int unit, const std::vector<double>& seconds) {
  std::vector<int> rows{stage - 1, stage_row(stage - 1), stage_row(stage)};
  std::vector<double> elements{1, static_cast<double>(unit), -static_cast<double>(unit)};
  const int before = rank_of_stage_[static_cast<size_t>(stage) - 1];
  const int rank = rank_of_stage_[static_cast<size_t>(stage)];
  if (before != rank) {
    rows.insert(rows.end(), {rank_row(before), rank_row(rank)});
    elements.insert(elements.end(), {elements[1], elements[2]});
  }
  for (size_t row = 0; row < seconds.size(); ++row) {
    if (seconds[row] == 0) continue;
    rows.push_back(first_added() + static_cast<int>(row));
    elements.push_back(-seconds[row] / scale_);
  }
  add_column(rows, elements, 0, 0);
  ++places_;
}

void PathGame::add_row(std::vector<int> columns, std::vector<double> elements, double ends,
                       const std::vector<double>& seconds) {
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (seconds[i] == 0) continue;
    columns.push_back(first_place() + static_cast<int>(i));
    elements.push_back(-seconds[i] / scale_);
  }
  if (columns_.count() > 0) add_pending();
  rows_.add(columns, elements, ends / scale_, 0);
}

void PathGame::add_path(double ends, const std::vector<double>& seconds,
                        const std::vector<double>& longer) {
  std::vector<int> columns{0};
  std::vector<double> elements{1};
  for (size_t stage = 0; stage < longer.size(); ++stage) {
    if (longer[stage] == 0) continue;
    columns.push_back(first_longer() + static_cast<int>(stage));
    elements.push_back(-longer[stage]);
  }
  add_row(std::move(columns), std::move(elements), ends, seconds);
  is_path_.push_back(1);
}

void PathGame::add_memory(int rank, double ends, const std::vector<double>& seconds,
                          const std::vector<double>& longer) {
  std::vector<int> columns{first_over() + rank};
  std::vector<double> elements{1};
  for (size_t stage = 0; stage < longer.size(); ++stage) {
    if (longer[stage] == 0) continue;
    columns.push_back(first_longer() + static_cast<int>(stage));
    elements.push_back(longer[stage]);
  }
  add_row(std::move(columns), std::move(elements), ends, seconds);
  is_path_.push_back(0);
}

std::vector<char> PathGame::drop_far(double seconds) {
  std::vector<char> dropped;
  std::vector<int> rows;
  for (int row = first_added(); row < lp_->numberRows(); ++row) {
    const double slack = lp_->primalRowSolution()[row] - lp_->rowLower()[row];
    const bool far = lp_->getRowStatus(row) == ClpSimplex::basic && slack * scale_ > seconds;
    dropped.push_back(far);
    if (far) rows.push_back(row);
  }
  if (rows.empty()) return dropped;
  lp_->deleteRows(static_cast<int>(rows.size()), rows.data());
  for (size_t i = dropped.size(); i-- > 0;)
    if (dropped[i]) is_path_.erase(is_path_.begin() + static_cast<std::ptrdiff_t>(i));
  return dropped;
}

PathGame::Basis PathGame::basis() const {
  Basis basis;
  const auto add = [](std::vector<char>& to, ClpSimplex::Status status) {
    to.push_back(static_cast<char>(status));
  };
  for (int row = 0; row < first_added(); ++row) add(basis.limits, lp_->getRowStatus(row));
  for (int column = 0; column < first_place(); ++column)
    add(basis.limits, lp_->getColumnStatus(column));
  for (int i = 0; i < added(); ++i) add(basis.rows, lp_->getRowStatus(first_added() + i));
  for (int i = 0; i < places_; ++i) add(basis.places, lp_->getColumnStatus(first_place() + i));
  return basis;
}

void PathGame::start(const Basis& basis) {
  add_pending();
  lp_->createStatus();
  size_t at = 0;
  const auto next = [&](const std::vector<char>& from) {
    return static_cast<ClpSimplex::Status>(from[at++]);
  };
  for (int row = 0; row < first_added(); ++row) lp_->setRowStatus(row, next(basis.limits));
  for (int column = 0; column < first_place(); ++column)
    lp_->setColumnStatus(column, next(basis.limits));
  at = 0;
  for (int i = 0; i < added(); ++i) lp_->setRowStatus(first_added() + i, next(basis.rows));
  at = 0;
  for (int i = 0; i < places_; ++i) lp_->setColumnStatus(first_place() + i, next(basis.places));
}

bool PathGame::solve() {
  add_pending();
  lp_->dual();
  work_ += int64_t{lp_->numberIterations()} * (lp_->numberRows() + lp_->numberColumns());
  return lp_->isProvenOptimal();
}

double PathGame::estimate(const Division& division, bool second) {
  const bool of_rank = division.of == Division::Of::ranks;
  const int row = of_rank ? rank_row(division.number) : stage_row(division.number);
  const double low = lp_->rowLower()[row], high = lp_->rowUpper()[row];
  if (second)
    limit(row, division.last + 1, units_);
  else
    limit(row, 0, division.last);
  lp_->setRowBounds(row, std::max(low, lp_->rowLower()[row]), std::min(high, lp_->rowUpper()[row]));
  const int steps = lp_->maximumIterations();
  lp_->setMaximumIterations(most_steps);
  solve();
  const bool none = lp_->isProvenPrimalInfeasible();
  const double estimate_s = none ? std::numeric_limits<double>::infinity() : seconds();
  lp_->setMaximumIterations(steps);
  lp_->setRowBounds(row, low, high);
  return estimate_s;
}

double PathGame::seconds() const { return lp_->objectiveValue() * scale_; }

std::vector<double> PathGame::rank_prices() const {
  std::vector<double> prices(static_cast<size_t>(ranks_));
  const double* from = lp_->dualRowSolution() + rank_row(0);
  std::transform(from, from + ranks_, prices.begin(), [&](double dual) { return dual * scale_; });
  return prices;
}

std::vector<double> PathGame::row_weights() const {
  std::vector<double> weights = not_negative(lp_->dualRowSolution() + first_added(), added());
  const double sum = std::inner_product(weights.begin(), weights.end(), is_path_.begin(), 0.0);
  const double paths = std::accumulate(is_path_.begin(), is_path_.end(), 0.0);
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] = sum > 0 ? weights[i] / sum : is_path_[i] / paths;
  return weights;
}

std::vector<double> PathGame::place_weights() const {
  return not_negative(lp_->primalColumnSolution() + first_place(), places_);
}

std::vector<double> PathGame::solution_s(int first, int count) const {
  if (!recompute_) return {};
  std::vector<double> solution = not_negative(lp_->primalColumnSolution() + first, count);
  for (double& seconds : solution) seconds *= scale_;
  return solution;
}

std::vector<double> PathGame::longer_s() const { return solution_s(first_longer(), stages()); }
std::vector<double> PathGame::owed_s() const { return solution_s(first_over(), ranks_); }

}  // namespace penstock
