// The least recompute with which ranks fit, by how many units each of their stages has.
//
// Units are whole, and so are their choices: a rank with a certain number of units recomputes so
// many of them or one more, where the means of a mixture of splits (split_memory.hpp) get by with
// part of one. What a stage of k units holds at least, wherever it begins, depends on k alone, so
// that the least recompute of each way to deal a rank's units out to its stages is a
// multiple-choice knapsack (layer_choices.hpp), with any unit's choices for all. In a mixture of
// splits it is no less than the lower convex hull of all ways (dealt_hull.hpp), whose planes are
// linear in the begins of stages.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "planner/bounds/chain_memory.hpp"
#include "planner/bounds/layer_choices.hpp"
#include "planner/bounds/placement.hpp"
#include "planner/model/rank_speeds.hpp"
#include "planner/paths/dealt_hull.hpp"
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

  /// Ranks keep all, whatever they hold.
  WholeRecompute(Placement placement, RankSpeeds speeds);

  /// Units of a rank's stages.
  using Dealt = std::vector<int>;
  /// All ways to deal units out to a rank's stages within a box with which it may fit. False: there
  /// are too many, and some are left out.
  bool each_way(size_t rank, const SplitBox& box,
                const std::function<void(const Dealt&)>& way) const;
  /// The least seconds by which backwards of its stages together take longer; infinite where it
  /// does not fit.
  double seconds(size_t rank, const Dealt& dealt) const;
  /// A lower bound of that, by parts of choices: without a knapsack.
  double at_least_s(size_t rank, const Dealt& dealt) const;

  /// Prices as SplitMemory::broken() has them, for each rank that has a hull and of which the mean
  /// of units, and of the seconds that backwards of its stages take longer, lies below it.
  std::vector<MemoryPrices> broken(std::vector<std::optional<DealtHull>>& hulls,
                                   const std::vector<double>& units_of_stage,
                                   const std::vector<double>& seconds,
                                   const std::vector<double>& owed, double most) const;

 private:
  /// The least of stages of so many units.
  struct Least {
    int64_t own, saved, for_weight, turn;
    int64_t apart, again;   // of `saved` where units recompute one by one
    int64_t given, remade;  // where the stage is recomputed at once
  };
  Least least(size_t stage, int units) const;
  const LayerChoices& choices(size_t stage, int units, int unit) const;
  LayerChoices freed(const HeldAtOnce& moment, size_t stage, int units, int unit) const;
  int64_t given(const HeldAtOnce& moment, size_t stage, int units) const;
  bool is_known(size_t rank, const Dealt& dealt) const;
  double least_s(size_t rank, const Dealt& dealt) const;
  double relaxed_s(size_t rank, size_t moment, const Dealt& dealt) const;
  int64_t excess(const HeldAtOnce& moment, const Dealt& dealt) const;
  /// A step along the hull of what any unit of a stage of the rank may choose; for all microbatches
  /// that are held.
  struct Step {
    size_t stage;  // of the rank's
    LayerChoice more;
  };
  std::vector<Step> steps_of(const HeldAtOnce& moment) const;
  class Dealing;

  std::shared_ptr<const StageTable> bytes_;
  std::vector<LayerChoices> units_;
  std::vector<int64_t> for_weight_;  // of the units before each one
  Placement placement_;
  RankSpeeds speeds_;
  std::vector<int64_t> limits_;
  std::vector<std::vector<size_t>> stages_;             // of each rank
  std::vector<std::vector<HeldAtOnce>> moments_;        // likewise
  std::vector<std::vector<std::vector<Step>>> steps_;   // of each of them, the cheapest bytes first
  std::vector<LayerChoices> any_;                       // of a stage: what any unit may choose
  std::vector<std::vector<Least>> least_;               // by stage and units
  mutable std::vector<std::map<Dealt, double>> known_;  // by rank
};

}  // namespace penstock
