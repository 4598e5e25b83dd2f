// Which splits in blocks are of use. Internal to complete.
#pragma once

#include "graph/sharding/problem.hpp"

namespace penstock::sharding {

/// Leaves out options with splits in blocks that are not those of pins, nor made by operators of
/// these or of splits that no block divides, nor read or made together with one of these: one
/// without blocks costs as much.
void leave_out_idle_blocks(Problem& problem);

}  // namespace penstock::sharding
