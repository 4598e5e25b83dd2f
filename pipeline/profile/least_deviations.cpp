#include "pipeline/profile/least_deviations.hpp"

#include <Eigen/QR>
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace penstock {

namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

/// Down to 1e-9 of the largest residual.
constexpr int reweightings = 93;
constexpr double shrinking = 0.8;

/// The columns of `a` that take part.
Matrix columns(const Matrix& a, const std::vector<int>& free) {
  Matrix part(a.rows(), static_cast<Eigen::Index>(free.size()));
  for (size_t k = 0; k < free.size(); ++k) part.col(static_cast<Eigen::Index>(k)) = a.col(free[k]);
  return part;
}

Vector scattered(const Vector& part, const std::vector<int>& free, Eigen::Index size) {
  Vector x = Vector::Zero(size);
  for (size_t k = 0; k < free.size(); ++k) x(free[k]) = part(static_cast<Eigen::Index>(k));
  return x;
}

/// Weighted least squares with x >= 0: unknowns that come out negative leave, the lowest first.
Vector least_squares(const Matrix& a, const Vector& y, const Vector& weights,
                     std::vector<int> free) {
  const Vector root = weights.cwiseSqrt();
  while (!free.empty()) {
    const Matrix scaled = root.asDiagonal() * columns(a, free);
    const Vector part = scaled.colPivHouseholderQr().solve(Vector(root.cwiseProduct(y)));
    Eigen::Index lowest = 0;
    if (part.minCoeff(&lowest) >= 0) return scattered(part, free, a.cols());
    free.erase(free.begin() + lowest);
  }
  return Vector::Zero(a.cols());
}

double deviation(const Matrix& a, const Vector& y, const Vector& x) {
  return (a * x - y).lpNorm<1>();
}

/// As many of the rows as there are columns, in that order, that none of the others before them
/// make up (Gram-Schmidt); fewer where there are not as many.
std::vector<Eigen::Index> independent(const Matrix& a, const std::vector<Eigen::Index>& rows) {
  constexpr double nothing_new = 1e-6;
  std::vector<Eigen::Index> chosen;
  Matrix basis(a.cols(), 0);
  for (const Eigen::Index row : rows) {
    if (basis.cols() == a.cols()) break;
    const Vector direction = a.row(row).transpose();
    const Vector rest = direction - basis * (basis.transpose() * direction);
    if (rest.norm() <= nothing_new * direction.norm()) continue;
    basis.conservativeResize(Eigen::NoChange, basis.cols() + 1);
    basis.rightCols(1) = rest.normalized();
    chosen.push_back(row);
  }
  return chosen;
}

/// The solution through the nearest rows to `x` that determine one, if it is as good as `x`.
Vector through_nearest_rows(const Matrix& a, const Vector& y, const Vector& x) {
  std::vector<int> free;
  for (Eigen::Index k = 0; k < x.size(); ++k)
    if (x(k) > 0) free.push_back(static_cast<int>(k));
  const Vector errors = (a * x - y).cwiseAbs();
  std::vector<Eigen::Index> order(static_cast<size_t>(a.rows()));
  std::iota(order.begin(), order.end(), Eigen::Index{0});
  std::ranges::stable_sort(order, {}, [&](Eigen::Index row) { return errors(row); });
  // Columns of the same size, so that none is taken for rounding.
  const Matrix part = columns(a, free);
  const Vector sizes = part.cwiseAbs().colwise().maxCoeff();
  const auto rows = independent(part * sizes.cwiseInverse().asDiagonal(), order);
  if (rows.empty() || rows.size() < free.size()) return x;
  Matrix square(static_cast<Eigen::Index>(rows.size()), part.cols());
  Vector right(square.rows());
  for (Eigen::Index k = 0; k < square.rows(); ++k) {
    square.row(k) = part.row(rows[static_cast<size_t>(k)]);
    right(k) = y(rows[static_cast<size_t>(k)]);
  }
  const Vector exact = scattered(square.colPivHouseholderQr().solve(right), free, a.cols());
  return exact.minCoeff() >= 0 && deviation(a, y, exact) <= deviation(a, y, x) ? exact : x;
}

Vector fit_deviations(const Matrix& a, const Vector& y) {
  std::vector<int> free;
  for (Eigen::Index k = 0; k < a.cols(); ++k)
    if (!a.col(k).isZero(0)) free.push_back(static_cast<int>(k));
  if (free.empty()) return Vector::Zero(a.cols());
  Vector x = least_squares(a, y, Vector::Ones(y.size()), free), best = x;
  // Residuals count as at least `least`, which shrinks: a row that happens to be met early on would
  // otherwise hold the fit for good.
  double least = (a * x - y).lpNorm<Eigen::Infinity>();
  for (int i = 0; i < reweightings && least > 0; ++i, least *= shrinking) {
    const Vector weights = (a * x - y).cwiseAbs().cwiseMax(least).cwiseInverse() * least;
    x = least_squares(a, y, weights, free);
    if (deviation(a, y, x) < deviation(a, y, best)) best = x;
  }
  return through_nearest_rows(a, y, best);
}

Matrix matrix(const std::vector<std::vector<double>>& rows) {
  Matrix result(rows.size(), rows.empty() ? 0 : rows.front().size());
  for (Eigen::Index i = 0; i < result.rows(); ++i) {
    const std::vector<double>& row = rows[static_cast<size_t>(i)];
    if (static_cast<Eigen::Index>(row.size()) != result.cols())
      throw std::invalid_argument("rows of one length");
    result.row(i) = Eigen::Map<const Vector>(row.data(), result.cols());
  }
  return result;
}

}  // namespace

std::vector<double> least_absolute_deviations(const std::vector<std::vector<double>>& a,
                                              const std::vector<double>& y) {
  if (a.size() != y.size()) throw std::invalid_argument("a row for each measurement");
  const Vector x = fit_deviations(
      matrix(a), Eigen::Map<const Vector>(y.data(), static_cast<Eigen::Index>(y.size())));
  return {x.begin(), x.end()};
}

}  // namespace penstock
