// Tells which operators on parameters alone are computed once per step.
#pragma once

#include <vector>

#include "backend/roles.hpp"

namespace penstock {

/// Turns microbatch chains that are the same in every microbatch and longer than one operator into
/// step chains. A view adds nothing to a chain's length. From a change of precision on a chain stays
/// one of the microbatch: there each microbatch's gradient is rounded, not their sum.
void mark_step_chains(const Graph& graph, const Analysis& analysis,
                      const std::vector<PreparedOperator>& operators, std::vector<ValueRole>& roles);

}  // namespace penstock
