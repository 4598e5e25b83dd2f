// `penstock plan --sweep`: a table of plans instead of one.
#pragma once

#include "cli/command_line/commands.hpp"

namespace penstock::cli {

/// 0 where at least one row has a plan. Throws InputError, that of the first row where none has.
int sweep_plans(const PlanOptions& options);

}  // namespace penstock::cli
