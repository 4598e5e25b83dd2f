// The recompute of the units of one split with which its ranks fit in the least time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/cuts/slice.hpp"
#include "pipeline/plan/plan.hpp"
#include "planner/bounds/layer_choices.hpp"
#include "planner/bounds/placement.hpp"
#include "planner/layouts/evaluate.hpp"

namespace penstock {

/// A layer's choices, for one microbatch.
LayerChoices layer_choices(const OperatorCost& layer);

/// The ways in which each unit of a model may keep less of a microbatch of that size: the choices
/// of a table's layers; else one, to run its forward again, with what that frees where the unit is
/// a stage of its own.
std::vector<LayerChoices> unit_choices(const PlanningInputs& inputs,
                                       const MicrobatchCosts& measured);

/// A rank is to free so many bytes, by choices whose backward takes no more than that meanwhile.
struct ToFree {
  int64_t bytes = 0;
  int64_t working_bytes = INT64_MAX;
  bool at_once = false;  // by recomputing each of its stages as a whole; not for layers of a table
};

/// Units are counted stage by stage: of stages that are intervals, along the model.
class UnitFit {
 public:
  /// All of it outlives this. `choices`: unit_choices.
  UnitFit(const PlanningInputs& inputs, const MicrobatchCosts& measured,
          const std::vector<LayerChoices>& choices, const Placement& placement,
          const Slicing& slicing);

  struct Freed {
    std::vector<int64_t> bytes;  // by rank
    /// The number of each unit's choice, -1 where it keeps everything; one beyond its choices
    /// where its stage is recomputed at once.
    std::vector<int> choices;
  };
  /// The choices by which each rank frees that, or what it can, in the least time; where seconds of
  /// stages' backwards have prices, they cost least.
  Freed free(const std::vector<ToFree>& wanted, KnownChoices& known,
             const std::vector<double>& prices = {}) const;
  /// The units of each rank that do not keep everything, those that take longest first; none where
  /// its stages are recomputed at once.
  std::vector<std::vector<size_t>> chosen(const std::vector<int>& choices) const;
  /// The units of each rank that can free anything, the cheapest bytes first.
  std::vector<std::vector<size_t>> cheapest() const;
  /// By how much its backwards take longer.
  double seconds(int rank, const std::vector<int>& choices) const;
  const std::vector<size_t>& of_rank(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  /// Notes each unit's choice in the plan.
  void note(const std::vector<int>& choices, Plan& plan) const;
  /// The most that a rank can free.
  int64_t most(int rank, int64_t working_bytes = INT64_MAX) const;
  /// The largest that a backward of its choices takes meanwhile which is less than that.
  std::optional<int64_t> less_working(int rank, int64_t working_bytes) const;

 private:
  struct UnitOfStage {
    int unit, stage;
    int held;  // microbatches
  };
  const LayerChoices& choices(size_t i) const {
    return choices_[static_cast<size_t>(units_[i].unit)];
  }
  /// The choices of a unit, with the bytes that they free on its rank: none by those that take more
  /// meanwhile.
  LayerChoices allowed(size_t i, int64_t working_bytes) const;
  Recompute layers_of(size_t begin, size_t end, const std::vector<int>& choices) const;
  Recompute units_of(size_t begin, size_t end, const std::vector<int>& choices) const;

  const PlanningInputs& inputs_;
  const MicrobatchCosts& measured_;
  const std::vector<LayerChoices>& choices_;
  std::vector<UnitOfStage> units_;
  std::vector<size_t> begins_;              // of each stage in units_, and the end
  std::vector<std::vector<size_t>> ranks_;  // of each rank, as numbers in units_
};

}  // namespace penstock
