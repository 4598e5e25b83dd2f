// From three ways of measuring one microbatch size to its costs: the whole model as one stage, its
// units as a chain of stages, and its groups of operators as a finer chain. The whole is the truth;
// units are scaled to it, operators to their unit. Pure functions.
#pragma once

#include <vector>

#include "backend/profiler/samples.hpp"
#include "backend/profiler/timing/statistics.hpp"
#include "graph/cuts/cuts.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

/// Seconds of F and B of the whole by the seconds of its parts: what the parts were scaled by.
struct ScaleFactors {
  Factor forward, backward, backward_input, backward_weight;
};
ScaleFactors scale_factors(const ActionTimes& whole, const std::vector<StageCost>& parts);
ActionTimes scaled(const ActionTimes& times, const ScaleFactors& factors);

/// The graph and how it was divided.
struct Division {
  const Graph& graph;
  const Analysis& analysis;
  const std::vector<Unit>& units;
  const std::vector<OperatorId>& groups;  // first operators; every unit begins a group
};

/// Costs of units and operators. Guarantees that the mean times of the units, and those of their
/// hosts, add up to the whole, those of a unit's operators to the unit (to rounding), and the same,
/// exactly, of the bytes held; the largest transient of a unit's operators is the unit's.
MicrobatchCosts assemble(const Division& division, int64_t microbatch, const StageCost& whole,
                         const std::vector<StageCost>& units, const std::vector<StageCost>& groups);

}  // namespace penstock::profiler
