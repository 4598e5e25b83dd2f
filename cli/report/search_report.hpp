// The report on a plan's search: the layouts it looked at, how good the plan is, what it left.
#pragma once

#include <string>
#include <vector>

#include "cli/predict/what_if.hpp"
#include "cli/report/table.hpp"
#include "planner/plan.hpp"

namespace penstock::cli {

// Each is some lines, ending with a newline.

/// The layouts that it looked into, best first.
std::string search_table(const Planned& planned, int columns);

/// How good the plan is, what keeps it from being better, and which plans were left for it.
std::string search_conclusion(const Planned& planned, ReportStyle style);

/// Which constraints keep the step from its bound, by plans without them; "" where none were made.
std::string relaxations(const Planned& planned, const std::vector<WhatIf>& relaxed, int columns);

/// The best alternatives and where their time goes, and what would help.
std::string plan_explanation(const Planned& planned, const std::vector<WhatIf>& what_if,
                             int columns);

}  // namespace penstock::cli
