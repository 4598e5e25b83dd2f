// The splits of one layout of a model with their bounds, from what the model's units take there.
#pragma once

#include <cstdint>
#include <memory>

#include "planner/bounds/placement.hpp"
#include "planner/layouts/evaluate.hpp"
#include "planner/model/branches.hpp"
#include "planner/model/model_chain.hpp"
#include "planner/model/stage_tables.hpp"
#include "planner/splits/split_space.hpp"
#include "simulator/costs/memory_limit.hpp"

namespace penstock {

/// Shared by all layouts of a model.
struct LayoutContext {
  const PlanningInputs& inputs;
  const ModelChain& chain;
  std::shared_ptr<const Branches> branches;  // or null
  Link link, reduce_link;                    // the best between any two ranks
  int64_t memory_bytes = 0;                  // of the plans: as asked for, or 0
  bool min_memory = false;                   // ranks recompute all that helps
  SharingWays ways;                          // that are tried for each split
  bool sharded = false;                      // replicas share out the optimizer's state
  std::shared_ptr<StageTables> tables;

  SharingWays ways_of(const PipelineLayout& layout) const;
  std::shared_ptr<const StageTable> bytes(const PipelineLayout& layout) const;
};

/// Costs of the units for that layout, its all-reduces over replicas included.
ChainCosts layout_costs(const LayoutContext& context, const PipelineLayout& layout,
                        ModelChain::Backward backward = ModelChain::Backward::either);
/// As the layout's schedule runs its backwards; `compute`: its actions.
ModelChain::Backward backward_of(const PipelineLayout& layout, const Program& compute);

/// May ranks recompute under that limit?
bool may_recompute(const LayoutContext& context, const MemoryLimit& limit);

/// Is each first part of a split bounded by the order of F and B (chain_bound.hpp)?
bool is_whole_chain(const PipelineLayout& layout, const ChainCosts& costs,
                    const MemoryLimit& limit);

/// `costs` as above, for the schedule's backwards. No split takes less than `least`.
std::unique_ptr<const SplitSpace> layout_splits(const LayoutContext& context,
                                                const PipelineLayout& layout,
                                                const Placement& placement,
                                                const MemoryLimit& limit, ChainCosts costs,
                                                SplitNeeds least);

/// Does each rank hold what it needs without recompute? Not of branches.
bool keeps_all(const SplitSpace& splits, const std::vector<int>& begins, const MemoryLimit& limit);

}  // namespace penstock
