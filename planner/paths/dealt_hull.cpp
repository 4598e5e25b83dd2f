#include "planner/paths/dealt_hull.hpp"

#include <ClpSimplex.hpp>
#include <Eigen/Dense>
#include <algorithm>
#include <limits>
#include <numeric>
#include <ranges>
#include <utility>

namespace penstock {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double weight_rounding = 1e-9;

}  // namespace

struct DealtHull::Facet {
  std::vector<std::vector<int>> ways;  // their units
  Eigen::MatrixXd weights;             // of ways, times a mean of units and 1
  Eigen::VectorXd most;                // of each
  Plane plane;

  bool has(const Eigen::VectorXd& mean) const {
    const Eigen::VectorXd found = weights * mean;
    return found.minCoeff() >= -weight_rounding && (found - most).maxCoeff() <= 0;
  }
};

DealtHull::DealtHull(std::vector<Way> ways, double steepest, const Facets& known)
    : ways_(std::move(ways)), steepest_(steepest) {
  const auto is_here = [&](const std::vector<int>& units) {
    return std::ranges::find(ways_, units, &Way::units) != ways_.end();
  };
  for (const auto& facet : known)
    if (std::ranges::all_of(facet->ways, is_here)) facets_.push_back(facet);
}

/// Rows: the mean of units of each stage, then that weights sum to 1. Columns: what a mean has more
/// and less than any mixture of ways, then the weights.
void DealtHull::make_programme() {
  lp_ = std::make_unique<ClpSimplex>();
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
      end_column(steepest_);
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
  Eigen::VectorXd mean(units.size() + 1);
  for (size_t stage = 0; stage < units.size(); ++stage) mean[stage] = units[stage];
  mean[units.size()] = 1;
  for (const auto& facet : std::views::reverse(facets_))  // the latest are of means nearby
    if (facet->has(mean)) return facet->plane;
  if (!lp_) make_programme();
  for (size_t stage = 0; stage < units.size(); ++stage)
    lp_->setRowBounds(static_cast<int>(stage), units[stage], units[stage]);
  lp_->dual();
  const double* duals = lp_->dualRowSolution();
  Plane plane{std::vector<double>(duals, duals + units.size()), infinite};
  for (const Way& way : ways_)
    plane.at_none = std::min(
        plane.at_none,
        std::inner_product(way.units.begin(), way.units.end(), plane.slopes.begin(), way.seconds,
                           std::plus(), [](int count, double slope) { return -slope * count; }));
  keep_facet(plane);
  return plane;
}

/// The one that the solver has ended at, from its basis. Numbers of units that all ways have in
/// common leave rows in it, whose numbers are then given.
void DealtHull::keep_facet(const Plane& plane) {
  const auto size = static_cast<Eigen::Index>(plane.slopes.size() + 1);
  Eigen::MatrixXd basis = Eigen::MatrixXd::Zero(size, size);
  Facet facet{{}, basis, Eigen::VectorXd::Constant(size, infinite), plane};
  Eigen::Index found = 0;
  for (int row = 0; row < lp_->numberRows(); ++row) {
    if (lp_->getRowStatus(row) != ClpSimplex::basic) continue;
    basis(row, found) = 1;
    facet.most[found++] = weight_rounding;
  }
  const CoinPackedMatrix& columns = *lp_->matrix();
  for (int column = 0; column < lp_->numberColumns(); ++column) {
    if (lp_->getColumnStatus(column) != ClpSimplex::basic) continue;
    if (found == size) return;
    for (CoinBigIndex i = columns.getVectorFirst(column); i < columns.getVectorLast(column); ++i)
      basis(columns.getIndices()[i], found) = columns.getElements()[i];
    ++found;
    const auto way = static_cast<size_t>(column) - 2 * plane.slopes.size();
    if (way < ways_.size()) facet.ways.push_back(ways_[way].units);
  }
  if (found < size) return;
  facet.weights = basis.inverse();
  facets_.push_back(std::make_shared<const Facet>(std::move(facet)));
}

}  // namespace penstock
