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

/// How the units of a rank recompute, all alike: not at all, each by the choice that frees most, or
/// each stage as a whole, which layers of a table cannot.
enum class RecomputeWay { none, most, at_once };

/// Units are counted stage by stage: of stages that are intervals, along the model.
class UnitFit {
 public:
  /// All of it outlives this. `choices`: unit_choices.
  UnitFit(const PlanningInputs& inputs, const MicrobatchCosts& measured,
          const std::vector<LayerChoices>& choices, const Placement& placement,
          const Slicing& slicing);

  /// The choices of a rank's units, each with what it frees of one microbatch, nothing where it
  /// takes more than that meanwhile, and its seconds times the price of its stage, if any.
  std::vector<LayerChoices> choices_of(int rank, int64_t working_bytes,
                                       const std::vector<double>& prices) const;
  /// For each unit of a rank, that of its stage.
  std::vector<int> by_unit(int rank, const std::vector<int>& by_stage) const;
  /// Sets the choices of a rank's units: the number of each, -1 where it keeps everything; one
  /// beyond its choices where its stage is recomputed at once.
  void choose(int rank, RecomputeWay way, std::vector<int>& choices) const;
  /// All ranks alike.
  std::vector<int> all(RecomputeWay way) const;
  /// The units of each rank that do not keep everything, those that take longest first; none where
  /// its stages are recomputed at once.
  std::vector<std::vector<size_t>> chosen(const std::vector<int>& choices) const;
  /// The units of each rank that can free anything where it holds so many microbatches of its
  /// stages, the cheapest bytes first.
  std::vector<std::vector<size_t>> cheapest(const std::vector<int>& held) const;
  /// By how much its backwards take longer.
  double seconds(int rank, const std::vector<int>& choices) const;
  const std::vector<size_t>& of_rank(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  /// Notes each unit's choice in the plan.
  void note(const std::vector<int>& choices, Plan& plan) const;
  /// The largest that a backward of its choices takes meanwhile which is less than that.
  std::optional<int64_t> less_working(int rank, int64_t working_bytes) const;

 private:
  struct UnitOfStage {
    int unit, stage;
  };
  const LayerChoices& choices(size_t i) const {
    return choices_[static_cast<size_t>(units_[i].unit)];
  }
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
