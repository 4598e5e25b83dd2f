// The paths of a layout's program, and what is known of the units that its ranks share.
#pragma once

#include <memory>
#include <vector>

#include "planner/layouts/layout_splits.hpp"
#include "planner/paths/program_paths.hpp"
#include "planner/paths/shared_units.hpp"

namespace penstock {

/// `compute`: actions of the layout; `costs` as layout_splits() takes them. Null where bounds of
/// first parts of splits say as much, or where it would take too long to make.
std::shared_ptr<const SharedUnits> shared_units(const LayoutContext& context,
                                                const PipelineLayout& layout,
                                                const MemoryLimit& limit, const Program& compute,
                                                const ChainCosts& costs);

/// The needs of all splits of the layout, by the units that ranks share, which may be null, and by
/// the memory of all ranks together.
SplitNeeds layout_needs(const LayoutContext& context, const PipelineLayout& layout,
                        const MemoryLimit& limit, const Program& compute, const ChainCosts& costs,
                        const SharedUnits* shared);

/// The paths of the layout's program, where they say more than `splits` of those much like
/// `begins`: not where ranks of that one recompute and the chain joins units. Null otherwise.
std::shared_ptr<const ProgramPaths> layout_paths(const LayoutContext& context,
                                                 const PipelineLayout& layout,
                                                 const MemoryLimit& limit, const SplitSpace& splits,
                                                 const std::vector<int>& begins,
                                                 std::shared_ptr<const SharedUnits> shared);

}  // namespace penstock
