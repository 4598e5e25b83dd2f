// Cuts at the boundaries of modules.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace penstock {

/// How many module calls a stage that begins there divides: 0 between children of the model,
/// 1 inside one of these, between its own children, … `position` is not 0.
int divided_modules(const Graph& graph, OperatorId position);

/// The positions that divide no call of a module whose path matches one of the patterns, in which
/// `*` and `?` stand for anything but a dot. Throws InputError, place `--whole-modules`, for a
/// pattern that no module matches, suggesting the nearest path.
std::vector<OperatorId> outside_whole_modules(const Graph& graph, std::vector<OperatorId> begins,
                                              const std::vector<std::string>& patterns);

}  // namespace penstock
