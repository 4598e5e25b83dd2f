// The units of a model that splits along its branches divide between: runs of operators that
// nothing branches off, wherever they stand in the export's order.
#pragma once

#include <vector>

#include "graph/analysis/analysis.hpp"
#include "graph/graph.hpp"

namespace penstock {

/// The unit of each operator; units are numbered such that values go from smaller to larger
/// numbers. They begin where an outermost module does, or a unit of the chain
/// (graph/cuts/cuts.hpp), and are joined along what has one way in and out while together they have
/// no more than 1/64 of the model's FLOPs; what has next to none joins a neighbour.
std::vector<int> branch_units(const Graph& model, const Analysis& analysis);

}  // namespace penstock
