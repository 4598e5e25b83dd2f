// What a stage holds, as a person would say it.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "pipeline/plan.hpp"

namespace penstock::cli {

/// For every stage the modules that lie wholly in it, outermost first, runs of numbered ones drawn
/// together: `embedding, layers.0-layers.3`. Of a module that is divided, one or two names that lie
/// in the stage, or `part of layers.4`. Long lists keep their beginning and end.
std::vector<std::string> stage_names(const Graph& model, const std::vector<int>& stage_of_operator,
                                     int stages);

/// What follows a stage's name: ` (recomputed)`, ` (2 units recomputed)` or nothing.
std::string recompute_note(const Recompute& recompute);

}  // namespace penstock::cli
