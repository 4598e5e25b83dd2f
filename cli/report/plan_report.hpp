// The report of `penstock plan`: the plan, its stages, and what is said of the search.
#pragma once

#include <string>

#include "cli/report/table.hpp"
#include "graph/graph.hpp"
#include "planner/plan.hpp"

namespace penstock::cli {

/// Several lines, ending with a newline. `verbose`: with the layouts that the search looked into,
/// every stage and the devices.
std::string plan_report(const Planned& planned, const Graph& model, ReportStyle style);

}  // namespace penstock::cli
