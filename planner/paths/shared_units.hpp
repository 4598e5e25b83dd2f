// The least step of ranks that share the units of a chain, and recompute what does not fit.
//
// A rank with n units takes t(n) seconds at least: what lies before its first stage, the least that
// n units take in its stages, wherever these begin, and the least recompute with which they fit
// (whole_recompute.hpp). In T seconds it can have as many units as t(n) <= T allows, so that T is
// enough only where ranks can have all of them.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "planner/bounds/placement.hpp"
#include "planner/bounds/work_sums.hpp"
#include "planner/model/rank_speeds.hpp"
#include "planner/paths/whole_recompute.hpp"

namespace penstock {

/// For one thread: it keeps what it has found.
class SharedUnits {
 public:
  /// Backwards of a rank take `times` in a step as much longer as those of a microbatch.
  SharedUnits(const ChainCosts& costs, const Placement& placement, const RankSpeeds& speeds,
              std::shared_ptr<const WholeRecompute> recompute, double times);

  /// No split is faster; infinite where none fits.
  double step_s() const;

 private:
  double load_s(size_t rank, int units) const;
  /// F and I of a stage on the fastest rank, and these with W.
  struct Least {
    double inputs_s, all_s;
  };
  const Least& least(size_t stage, int units) const;

  const WorkSums sums_;
  const int units_;
  const bool linked_;  // every microbatch passes all units, one after the other
  const RankSpeeds speeds_;
  const std::shared_ptr<const WholeRecompute> recompute_;
  const double times_;
  std::vector<std::vector<size_t>> stages_;  // of each rank
  size_t stage_count_;
  std::vector<double> smallest_s_;  // F and I of so many units, whichever they are
  mutable std::map<std::pair<size_t, int>, Least> known_;
};

}  // namespace penstock
