// The least step of ranks that share the units of a chain, and recompute what does not fit, and the
// ways to deal units out to a rank's stages with which it is done in a certain time.
//
// A rank with n units takes t(n) seconds at least: paths through the program that pass all it does
// (rank_paths.hpp) are as long as its own units take in its stages, wherever these begin, the least
// recompute with which they fit (whole_recompute.hpp), and the least that the paths pass in others.
// In T seconds it can have as many units as t(n) <= T allows, so that T is enough only where ranks
// can have all of them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "planner/paths/split_times.hpp"
#include "planner/paths/whole_recompute.hpp"

namespace penstock {

/// Keeps what it has found. narrow() may be called by several threads, all else by one.
class SharedUnits {
 public:
  /// `paths`: weights of those of each rank, at least one. Recompute takes `first` times as long
  /// for microbatch 0.
  SharedUnits(const SplitTimes& times, const std::vector<std::vector<Times>>& paths,
              std::shared_ptr<const WholeRecompute> recompute, double first);

  const WholeRecompute& recompute() const { return *recompute_; }
  /// The weights of the first of a rank's paths.
  const Times& path(size_t rank) const { return paths_[rank].front().weights; }

  /// No split is faster; infinite where none fits.
  double step_s() const;
  /// The longest of the ranks' paths, of a split.
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
  struct RankPath {
    Times weights, around;  // of all that it passes; of what are no stages of the rank
    std::vector<std::vector<double>> exactly_s;  // the least by stage of the rank and its units
    double recomputes;                           // the least that a stage's backward counts
  };
  RankPath rank_path(size_t rank, const Times& weights, double first) const;
  std::vector<double> stage_s(const Times& weights, int stage) const;
  Times least(const SplitBox& box) const;
  double least_s(const RankPath& path, int units) const;
  double own_s(const RankPath& path, const Dealt& dealt) const;
  double least_load_s(size_t rank, int units) const;
  Dealt dealt(const std::vector<int>& begins, size_t rank) const;
  Ways::value_type ways(size_t rank, const SplitBox& box, double seconds) const;
  void narrow_rank(size_t rank, const std::vector<DealtHull::Way>& ways, SplitBox& box) const;

  const SplitTimes times_;
  const SplitBox all_;
  const int units_, most_;  // of all, and of a stage
  const std::shared_ptr<const WholeRecompute> recompute_;
  std::vector<std::vector<size_t>> stages_;                        // of each rank
  std::vector<Times> least_;                                       // of stages, by units or more
  std::vector<std::vector<RankPath>> paths_;                       // of each rank
  mutable std::map<std::pair<size_t, int>, double> known_load_s_;  // by rank and units
  mutable std::mutex narrows_;
};

}  // namespace penstock
