// The recompute with which ranks of a split fit, as RecomputeFit chooses it, and about how much
// longer it makes their backwards, judged by what stages keep alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "planner/bounds/chain_memory.hpp"
#include "planner/bounds/layer_choices.hpp"
#include "planner/bounds/placement.hpp"
#include "planner/bounds/rank_holding.hpp"
#include "planner/model/rank_speeds.hpp"

namespace penstock {

/// For one thread: it keeps what it has found.
class SplitRecompute {
 public:
  /// `units`: their choices, in seconds of a backward on the fastest rank; `limits`: bytes by rank.
  SplitRecompute(std::shared_ptr<const StageTable> bytes, std::vector<LayerChoices> units,
                 std::vector<int64_t> for_weight, Placement placement, RankSpeeds speeds,
                 const std::vector<HeldAtOnce>& moments, std::vector<int64_t> limits);

  /// Seconds by which each backward of a stage takes longer, by stage; absent where a rank does not
  /// fit.
  std::optional<std::vector<double>> longer_s(const std::vector<int>& begins) const;
  /// Sets the seconds of a rank's stages where each unit makes that choice, -1 where it keeps
  /// everything. Does the rank fit, also with what its choices take meanwhile?
  bool lengthen(size_t rank, const std::vector<int>& begins, const std::vector<int>& choices,
                std::vector<double>& longer_s) const;
  /// Recompute of a rank of a split: by how much it makes the backwards of each of its stages take
  /// longer, and the choice of each of its units, or -1.
  struct Option {
    std::vector<double> longer_s;
    std::vector<int> choices;
  };
  /// All with which the rank fits, but for those that take no less in any stage than another one;
  /// absent where finding them takes more than so many products. Adds how many it took.
  std::optional<std::vector<Option>> options(size_t rank, const std::vector<int>& begins,
                                             int64_t most, int64_t& products) const;
  /// The one that costs least where a second of each stage's backward has a price; absent where the
  /// rank does not fit. Of large ranks only about that.
  std::optional<Option> cheapest(size_t rank, const std::vector<int>& begins,
                                 const std::vector<double>& prices) const;
  const std::vector<std::vector<size_t>>& stages() const { return stages_; }
  const std::vector<LayerChoices>& units() const { return units_; }

 private:
  using Intervals = std::vector<int>;  // begins and ends of a rank's stages
  /// Choices of some units, together.
  struct Chosen {
    LayerChoice of;
    std::vector<int> choices;
  };
  class Combining;
  RankHolding holding(size_t rank, const Intervals& stages) const;
  FreedByStage freed(int begin, std::span<const int> choices) const;
  Intervals intervals(size_t rank, const std::vector<int>& begins) const;
  std::optional<std::vector<Chosen>> of_units(int begin, int end, int64_t most) const;
  std::optional<Option> found(size_t rank, const Intervals& stages,
                              const std::vector<double>& prices) const;

  std::shared_ptr<const StageTable> bytes_;
  std::vector<LayerChoices> units_;
  std::vector<int64_t> for_weight_;  // of the units before each one
  Placement placement_;
  RankSpeeds speeds_;
  std::vector<int64_t> limits_;
  std::vector<std::vector<size_t>> stages_;  // of each rank
  std::vector<std::vector<RankMoment>> moments_;
  /// By rank; absent where it does not fit.
  mutable std::vector<std::map<Intervals, std::optional<Option>>> found_;
  mutable KnownChoices choices_;
};

}  // namespace penstock
