// What `penstock plan` prints: what was searched, the plan's stages, and how good it is.
#pragma once

#include <string>

#include "graph/graph.hpp"
#include "planner/plan.hpp"

namespace penstock::cli {

/// Several lines, ending with a newline.
std::string plan_report(const Planned& planned, const Graph& model);

}  // namespace penstock::cli
