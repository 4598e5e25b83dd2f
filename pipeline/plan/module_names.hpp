// Names by which a plan calls the non-contiguous stages of a model.
#pragma once

#include <string>
#include <vector>

#include "pipeline/plan/plan.hpp"

namespace penstock {

/// Names by which `modules` of a plan may call the modules that an operator runs in, from the root:
/// containers that are never called themselves (`layers` of `layers.0`), paths, and calls; at last
/// the operator itself, `%add_3`.
std::vector<std::string> module_names(const Operator& op);

/// Names the plan's stages, which have these operators: by their `begin`s where they are intervals;
/// else all but the first by `modules`, each as large as possible.
void name_stages(const Graph& model, const std::vector<int>& stage_of_operator, Plan& plan);

}  // namespace penstock
