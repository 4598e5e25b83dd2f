// Finds the operators on parameters alone that are computed once per step.
#pragma once

#include <vector>

#include "backend/stage/recipe/aliases.hpp"
#include "backend/stage/recipe/roles.hpp"

namespace penstock {

/// Turns microbatch chains that are the same in every microbatch and longer than one operator into
/// step chains. A view adds nothing to a chain's length. Values that an operator changes in place
/// stay microbatch chains, and so does a chain from a change of precision on: there each
/// microbatch's gradient is rounded, not their sum.
void mark_step_chains(const Graph& graph, const Analysis& analysis, const Aliases& aliases,
                      const std::vector<PreparedOperator>& operators,
                      std::vector<ValueRole>& roles);

}  // namespace penstock
