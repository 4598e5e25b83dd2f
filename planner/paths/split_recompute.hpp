// The recompute with which ranks of a split fit, as RecomputeFit chooses it, and about how much
// longer it makes their backwards, judged by what stages keep alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "planner/bounds/chain_memory.hpp"
#include "planner/bounds/layer_choices.hpp"
#include "planner/bounds/placement.hpp"
#include "planner/model/rank_speeds.hpp"

namespace penstock {

/// For one thread: it keeps what it has found.
class SplitRecompute {
 public:
  /// `units`: their choices, in seconds of a backward on the fastest rank; `any`: those that free
  /// enough in the least time, else units are recomputed in their order. `limits`: bytes, by rank.
  SplitRecompute(std::shared_ptr<const StageTable> bytes, std::vector<LayerChoices> units,
                 std::vector<int64_t> for_weight, bool any, Placement placement, RankSpeeds speeds,
                 const std::vector<HeldAtOnce>& moments, std::vector<int64_t> limits);

  /// Seconds by which each backward of a stage takes longer, by stage; absent where a rank does not
  /// fit.
  std::optional<std::vector<double>> longer_s(const std::vector<int>& begins) const;
  /// The same where a second of each stage's backward has a price: ranks choose what costs least.
  std::optional<std::vector<double>> longer_s(const std::vector<int>& begins,
                                              const std::vector<double>& prices) const;

 private:
  using Intervals = std::vector<int>;  // begins and ends of a rank's stages
  template <typename Found>
  std::optional<std::vector<double>> of_ranks(const std::vector<int>& begins,
                                              const Found& found) const;
  std::vector<double> found(size_t rank, const Intervals& stages,
                            const std::vector<double>& prices) const;
  int64_t excess(size_t rank, const Intervals& stages, const std::vector<int64_t>& freed) const;
  std::vector<int> chosen(const std::vector<LayerChoices>& units, int64_t bytes) const;

  std::shared_ptr<const StageTable> bytes_;
  std::vector<LayerChoices> units_;
  std::vector<int64_t> for_weight_;  // of the units before each one
  bool any_;
  Placement placement_;
  RankSpeeds speeds_;
  std::vector<int64_t> limits_;
  std::vector<std::vector<size_t>> stages_;  // of each rank
  std::vector<std::vector<HeldAtOnce>> moments_;
  /// By rank; empty where it does not fit.
  mutable std::vector<std::map<Intervals, std::vector<double>>> found_;
  mutable KnownChoices choices_;
};

}  // namespace penstock
