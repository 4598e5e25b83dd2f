// The least step of ranks that share the units of a chain, and recompute what does not fit, and the
// ways to deal units out to a rank's stages with which it is done in a certain time.
//
// A rank with n units takes t(n) seconds at least: what lies before its first stage, the least that
// n units take in its stages, wherever these begin, and the least recompute with which they fit
// (whole_recompute.hpp). In T seconds it can have as many units as t(n) <= T allows, so that T is
// enough only where ranks can have all of them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "planner/bounds/placement.hpp"
#include "planner/bounds/work_sums.hpp"
#include "planner/model/rank_speeds.hpp"
#include "planner/paths/whole_recompute.hpp"

namespace penstock {

/// Keeps what it has found. narrow() may be called by several threads, all else by one.
class SharedUnits {
 public:
  /// Backwards of a rank take `times` in a step as much longer as those of a microbatch.
  SharedUnits(const ChainCosts& costs, const Placement& placement, const RankSpeeds& speeds,
              std::shared_ptr<const WholeRecompute> recompute, double times);

  const WholeRecompute& recompute() const { return *recompute_; }

  /// No split is faster; infinite where none fits.
  double step_s() const;
  /// The most that any rank of a split takes.
  double split_s(const std::vector<int>& begins) const;
  /// The least seconds by which a rank's backwards of a microbatch take longer in a split.
  double recompute_s(const std::vector<int>& begins, size_t rank) const {
    return recompute_->seconds(rank, dealt(begins, rank));
  }
  /// By rank, ways to deal its units out to its stages, each with the least recompute; absent where
  /// there are too many.
  using Ways = std::vector<std::optional<std::vector<DealtHull::Way>>>;
  /// The ways of splits of a tight box, but for those with which a rank takes more than so many
  /// seconds. Leaves what no way has out of the box, which may have no split then.
  Ways narrow(SplitBox& box, double seconds) const;

 private:
  using Dealt = WholeRecompute::Dealt;
  double least_load_s(size_t rank, int units) const;
  Dealt dealt(const std::vector<int>& begins, size_t rank) const;
  double own_load_s(size_t rank, const Dealt& dealt, int before) const;
  double load_s(size_t rank, const Dealt& dealt, int before) const {
    return own_load_s(rank, dealt, before) + times_ * recompute_->seconds(rank, dealt);
  }
  Ways::value_type ways(size_t rank, const SplitBox& box, double seconds) const;
  void narrow_rank(size_t rank, const std::vector<DealtHull::Way>& ways, SplitBox& box) const;
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
  mutable std::map<std::pair<size_t, int>, Least> known_;          // by stage and units
  mutable std::map<std::pair<size_t, int>, double> known_load_s_;  // by rank and units
  mutable std::mutex narrows_;
};

}  // namespace penstock
