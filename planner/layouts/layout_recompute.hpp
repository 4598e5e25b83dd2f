// The least that ranks of a layout recompute, and what that costs, for its bounds.
#pragma once

#include <vector>

#include "planner/bounds/layer_choices.hpp"
#include "planner/bounds/placement.hpp"
#include "planner/bounds/recompute_bound.hpp"
#include "planner/layouts/layout_splits.hpp"
#include "planner/paths/program_paths.hpp"

namespace penstock {

/// The recompute choices of the chain's units, on the fastest rank.
std::vector<LayerChoices> recompute_choices(const LayoutContext& context,
                                            const PipelineLayout& layout);

/// For all microbatches of a step.
RecomputeBound recompute_bound(const PipelineLayout& layout,
                               const std::vector<LayerChoices>& choices);

/// No split of the layout is faster, whatever its ranks recompute; 0 where units are no layers.
double shared_units_s(const LayoutContext& context, const PipelineLayout& layout,
                      const MemoryLimit& limit, const ChainCosts& costs);

/// Recompute for the paths of the program.
ProgramPaths::Recompute paths_recompute(const LayoutContext& context, const PipelineLayout& layout,
                                        const MemoryLimit& limit, const Program& compute,
                                        const ChainCosts& costs);

}  // namespace penstock
