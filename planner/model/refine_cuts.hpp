// Narrower cuts for a split that was found: operators that take next to no time change to the stage
// before or behind theirs where fewer bytes then cross between the two.
//
//     mask = (x == 0)     stage 0 makes it, stage 1 uses it: stage 1 may as well, x is read from
//     the data
#pragma once

#include <vector>

#include "graph/analysis/analysis.hpp"
#include "graph/cuts/slice.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock {

/// The stage of each operator when each cut between stage s and what follows is a minimum cut of
/// the bytes that cross it, activations and gradients of a microbatch (min_cut.hpp), over all
/// downsets that differ in operators of stages s and s + 1 with less than 1/64 of their stage's
/// time. Operators that make outputs, or touch buffers that are updated, stay.
std::vector<int> refined_stages(const Graph& model, const Analysis& analysis,
                                const Slicing& slicing, const MicrobatchCosts& measured);

}  // namespace penstock
