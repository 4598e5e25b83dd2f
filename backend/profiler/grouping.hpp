// Groups of operators that are timed together.
#pragma once

#include <vector>

#include "graph/cuts/cuts.hpp"

namespace penstock::profiler {

/// First operators of the groups, ascending from 0. A group lies inside one unit and ends with an
/// operator that costs time, so that views belong to the operator that reads them. At most
/// `max_groups` groups (but no fewer than units): in a larger graph, groups take several such
/// operators. Positions where no stage can begin (graph/cuts/cuts.hpp: allowed_cuts) lie inside a
/// group.
std::vector<OperatorId> group_begins(const Graph& graph, const Analysis& analysis,
                                     const std::vector<Unit>& units, int max_groups = 1000);

/// Weights by which the operators [begin, end) share their group's measurements: forward FLOPs, or
/// bytes where an operator has next to none; 0 for one that costs no time.
std::vector<double> weights(const Graph& graph, const Analysis& analysis, OperatorId begin,
                            OperatorId end, int64_t batch);

}  // namespace penstock::profiler
