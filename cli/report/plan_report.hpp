// The report of `penstock plan`: what was searched, the plan's stages, and how good it is.
#pragma once

#include <string>
#include <vector>

#include "cli/predict/what_if.hpp"
#include "graph/graph.hpp"
#include "planner/plan.hpp"

namespace penstock::cli {

/// Several lines, ending with a newline.
std::string plan_report(const Planned& planned, const Graph& model);

/// The best alternatives and where their time goes, and what would help.
std::string plan_explanation(const Planned& planned, const std::vector<WhatIf>& what_if);

}  // namespace penstock::cli
