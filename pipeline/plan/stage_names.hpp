// Names of stages by the modules that they hold, as a person would say them.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "pipeline/plan/plan.hpp"

namespace penstock {

/// For every stage the modules that lie wholly in it, outermost first, runs of numbered ones drawn
/// together: `embedding, layers.0-layers.3`. Of a module that is divided, what lies in the stage:
/// one or two names, `layers.4.{norm1, linear1, linear2}`, or `part of layers.4` where it is
/// operators in no module of their own. Long lists keep their beginning and end.
std::vector<std::string> stage_names(const Graph& model, const std::vector<int>& stage_of_operator,
                                     int stages);

/// The remark after a stage's name: ` (recomputed)`, ` (2 units recomputed)` or nothing.
std::string recompute_note(const Recompute& recompute);

}  // namespace penstock
