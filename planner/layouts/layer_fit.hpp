// The choices of a table's layers for one split: what lets its ranks fit in the least time.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/cuts/slice.hpp"
#include "pipeline/plan/plan.hpp"
#include "planner/bounds/layer_choices.hpp"
#include "planner/bounds/placement.hpp"

namespace penstock {

/// What a layer can choose, for one microbatch.
LayerChoices layer_choices(const OperatorCost& layer);

class LayerFit {
 public:
  /// All of it outlives this.
  LayerFit(const MicrobatchCosts& measured, const Placement& placement, const Slicing& slicing);

  /// Lets each rank free so many bytes, or what it can; notes the choices in the plan, and returns
  /// what they free.
  std::vector<int64_t> free(const std::vector<int64_t>& bytes, Plan& plan) const;
  /// The most that a rank can free.
  int64_t most(int rank) const;

 private:
  struct Ranked {
    std::vector<OperatorId> layers;     // of the rank, stage by stage
    std::vector<int> stages;            // of each
    std::vector<LayerChoices> choices;  // with the bytes of all microbatches that it holds
  };
  const MicrobatchCosts& measured_;
  std::vector<Ranked> ranks_;
};

}  // namespace penstock
