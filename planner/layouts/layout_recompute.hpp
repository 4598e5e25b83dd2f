// The least that ranks of a layout recompute, and what that costs, for its bounds.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/bounds/layer_choices.hpp"
#include "planner/bounds/recompute_bound.hpp"
#include "planner/layouts/layout_splits.hpp"

namespace penstock {

/// The recompute choices of the chain's units, on the fastest rank.
std::vector<LayerChoices> recompute_choices(const LayoutContext& context,
                                            const PipelineLayout& layout);

/// For all microbatches of a step.
RecomputeBound recompute_bound(const PipelineLayout& layout,
                               const std::vector<LayerChoices>& choices);

/// The bytes that each unit keeps of a microbatch between I and W at least, whatever it recomputes;
/// empty where they are not known.
std::vector<int64_t> kept_for_weight(const LayoutContext& context, const PipelineLayout& layout);

}  // namespace penstock
