// The least recompute with which ranks fit, by how many units each has.
//
// Units are whole, and so are their choices: a rank with a certain number of units recomputes so
// many of them or one more, where the means of a mixture of splits (split_memory.hpp) get by with
// part of one. What a stage of k units holds at least, wherever it begins, depends on k alone, so
// that the least recompute of a rank is that of the best way to deal its units out to its stages: a
// multiple-choice knapsack for each (layer_choices.hpp), with any unit's choices for all. Over the
// numbers of units that a rank has in a box it is no less than its lower convex hull, whose edges
// are linear in the begins of stages.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "planner/bounds/chain_memory.hpp"
#include "planner/bounds/layer_choices.hpp"
#include "planner/bounds/placement.hpp"
#include "planner/model/rank_speeds.hpp"
#include "planner/paths/split_box.hpp"
#include "planner/paths/split_memory.hpp"

namespace penstock {

/// For one thread: it keeps what it has found.
class WholeRecompute {
 public:
  /// As SplitMemory.
  WholeRecompute(std::shared_ptr<const StageTable> bytes, std::vector<LayerChoices> units,
                 const std::vector<int64_t>& for_weight, Placement placement, RankSpeeds speeds,
                 const std::vector<HeldAtOnce>& moments, std::vector<int64_t> limits);

  /// Lowers the most units that a rank has to those with which it fits, and raises the least; in
  /// any split of the tight box. May leave it with none.
  void narrow(SplitBox& box) const;

  /// By rank, for the splits of a tight box: units and the least seconds by which backwards of its
  /// stages together take longer, a convex function at its corners. Empty where nothing is known.
  using Corners = std::vector<std::pair<int, double>>;
  std::vector<Corners> corners(const SplitBox& box) const;

  /// Units of a rank's stages.
  using Dealt = std::vector<int>;
  /// The least seconds of a rank that has so many units, over all ways to deal them out to its
  /// stages: `load_s` of them, and so many `times` the seconds by which backwards take longer.
  /// Infinite where it does not fit; 0 where there are too many ways.
  double least_load_s(size_t rank, int units, const std::function<double(const Dealt&)>& load_s,
                      double times) const;

  /// Prices as SplitMemory::broken() has them, for each rank whose mean of `units`, and of the
  /// seconds that backwards of its stages take longer, lies below its corners.
  std::vector<MemoryPrices> broken(const std::vector<Corners>& corners,
                                   const std::vector<double>& units_of_stage,
                                   const std::vector<double>& seconds,
                                   const std::vector<double>& owed, double most) const;

 private:
  /// The least of stages of so many units.
  struct Least {
    int64_t own, saved, given, for_weight;
  };
  Least least(size_t stage, int units) const;
  int64_t given(const HeldAtOnce& moment, size_t stage, int units) const;
  double least_s(size_t rank, const Dealt& dealt) const;
  int64_t excess(const HeldAtOnce& moment, const Dealt& dealt) const;
  double known_s(size_t rank, const Dealt& dealt) const;
  class Dealing;
  std::vector<double> least_by_units(size_t rank, const SplitBox& box) const;

  std::shared_ptr<const StageTable> bytes_;
  std::vector<int64_t> for_weight_;  // of the units before each one
  Placement placement_;
  RankSpeeds speeds_;
  std::vector<int64_t> limits_;
  std::vector<std::vector<size_t>> stages_;             // of each rank
  std::vector<std::vector<HeldAtOnce>> moments_;        // likewise
  std::vector<LayerChoices> choices_;                   // that any unit of a stage may have
  std::vector<std::vector<Least>> least_;               // by stage and units
  mutable std::vector<std::map<Dealt, double>> known_;  // by rank
};

}  // namespace penstock
