// Recomputation by the ranks of a split, so that each fits.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "planner/bounds/placement.hpp"
#include "planner/layouts/evaluate.hpp"
#include "planner/layouts/unit_fit.hpp"

namespace penstock {

/// For one layout. All that it is given outlives it. `min_memory`: ranks hold as little as they
/// can.
class RecomputeFit {
 public:
  RecomputeFit(const PlanningInputs& inputs, const PipelineLayout& layout,
               const Placement& placement, const MemoryLimit& limit, bool min_memory,
               Evaluator& evaluator)
      : inputs_(inputs),
        layout_(layout),
        placement_(placement),
        limit_(limit),
        min_memory_(min_memory),
        evaluator_(evaluator) {}

  struct Fitted {
    Costs costs;
    std::vector<RankMemory> memory = {};  // where it was found for these costs
    std::vector<int> choices = {};        // UnitFit::choose
  };
  /// Makes ranks fit that would not, as far as they can, and notes in the plan what they recompute:
  /// with prices where there are any (unit_fit.hpp).
  Fitted fit(Plan& plan, Slicing& slicing, const std::vector<double>& prices = {});
  /// Choices of units with which ranks fit as with these, but in less time where any were found.
  Fitted fewer(const std::vector<int>& choices, Plan& plan, Slicing& slicing);
  /// Notes these choices of units, whether ranks fit or not.
  Fitted note(const std::vector<int>& choices, Plan& plan, Slicing& slicing);
  /// For `adaptive`, of which memory is only known when it is made: absent where nothing fits.
  std::optional<Evaluator::Evaluated> adapt(Plan& plan, const Slicing& slicing,
                                            const SimulationOptions& options);

  /// KnownChoices::steps so far.
  int64_t steps() const { return choices_.steps(); }
  void forget() { choices_.forget(); }

 private:
  class Rank;
  /// The choices of the units of a rank of certain stages, and what it then holds.
  struct FittedRank {
    std::vector<int> choices;
    RankMemory memory;
  };
  bool of_layers() const { return inputs_.model.layers; }
  UnitFit units(const Slicing& slicing) const;
  std::vector<std::vector<int>> intervals(const Slicing& slicing) const;
  Fitted fit_lowest(const UnitFit& of, Plan& plan, Slicing& slicing);
  Fitted noted(const UnitFit& of, const std::vector<int>& choices, Plan& plan, Slicing& slicing,
               std::vector<std::optional<RankMemory>> settled = {});
  std::optional<RankMemory> recalled(const UnitFit& of, int rank,
                                     const std::vector<std::vector<int>>& layers,
                                     std::vector<int>& choices);
  void remember(const UnitFit& of, const std::vector<std::vector<int>>& layers,
                const Fitted& fitted);
  std::vector<int> held_without(const UnitFit& of, Plan& plan, Slicing& slicing);
  bool fits(const Fitted& fitted, size_t rank) const {
    return fitted.memory[rank].peak_bytes <= limit_.of(static_cast<int>(rank));
  }
  std::vector<int> without_needless(const UnitFit& of, std::vector<int> choices, Plan& plan,
                                    Slicing& slicing);
  std::vector<int> cheapest_first(const UnitFit& of, size_t units, Plan& plan, Slicing& slicing);
  std::vector<RecomputeWay> ways() const;
  std::vector<int> of_named(Plan plan, Slicing slicing);

  const PlanningInputs& inputs_;
  const PipelineLayout& layout_;
  const Placement& placement_;
  const MemoryLimit& limit_;
  const bool min_memory_;
  Evaluator& evaluator_;
  /// For tables of layers, by rank and its stages' first and last layers: neighbours of a split
  /// have most ranks in common.
  std::vector<std::map<std::vector<int>, FittedRank>> fitted_;
  KnownChoices choices_;
};

}  // namespace penstock
