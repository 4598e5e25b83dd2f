// Which units the stages of a rank recompute where the rank would not fit: as few as possible.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "pipeline/plan/plan.hpp"
#include "simulator/costs/memory_limit.hpp"

namespace penstock {

/// How much a rank recomputes: 0 nothing; 1 … n the first so many of its n units, from its first
/// stage on, each by itself; n + 1 each of its stages at once.
class RecomputeLevels {
 public:
  /// `units`: of each stage.
  RecomputeLevels(const std::vector<int>& rank_of_stage, std::vector<int> units);

  int ranks() const { return static_cast<int>(units_of_rank_.size()); }
  int all_units(int rank) const { return units_of_rank_[static_cast<size_t>(rank)]; }
  int whole(int rank) const { return all_units(rank) + 1; }
  /// `levels`: of each rank.
  void note(const std::vector<int>& levels, Plan& plan) const;

 private:
  std::vector<int> units_, units_of_rank_;
};

/// For each rank the least level found with which it holds no more than it may; `whole` where
/// none does. `peaks` says what each rank holds at given levels, of which only its own matters.
/// Bisects, as more levels hold less: the one below the answer does not fit.
std::vector<int> min_levels(
    const RecomputeLevels& levels, const MemoryLimit& limit,
    const std::function<std::vector<int64_t>(const std::vector<int>&)>& peaks);

/// For each rank the first of nothing, all units and each stage at once with which it holds least.
std::vector<int> lowest_levels(
    const RecomputeLevels& levels,
    const std::function<std::vector<int64_t>(const std::vector<int>&)>& peaks);

}  // namespace penstock
