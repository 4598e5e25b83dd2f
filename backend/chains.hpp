// Tells which operators on parameters alone are computed once per step.
#pragma once

#include <vector>

#include "backend/roles.hpp"

namespace penstock {

/// Turns microbatch chains that are the same in every microbatch and longer than one operator into
/// step chains. A view adds nothing to a chain's length.
void mark_step_chains(const Analysis& analysis, const std::vector<PreparedOperator>& operators,
                      std::vector<ValueRole>& roles);

}  // namespace penstock
