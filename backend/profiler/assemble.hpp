// Assembles the costs of one microbatch size from three measurements: of the whole model as one
// stage, of its units as a chain of stages, and of its groups of operators as a finer chain. Units
// are scaled to the whole, operators to their unit. Pure functions.
#pragma once

#include <vector>

#include "backend/profiler/memory_trace.hpp"
#include "backend/profiler/samples.hpp"
#include "backend/profiler/timing/statistics.hpp"
#include "graph/cuts/cuts.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

/// The factors that parts were scaled by: seconds of F and B of the whole over those of its parts.
struct ScaleFactors {
  Factor forward, backward, backward_input, backward_weight;
};
ScaleFactors scale_factors(const ActionTimes& whole, const std::vector<StageCost>& parts);
ActionTimes scaled(const ActionTimes& times, const ScaleFactors& factors);

/// The graph and its division into units and groups.
struct Division {
  const Graph& graph;
  const Analysis& analysis;
  const std::vector<Unit>& units;
  const std::vector<OperatorId>& groups;  // first operators; every unit begins a group
};

/// Costs of units and operators, without bytes held. Mean times of device and host add up: units to
/// the whole, a unit's operators to the unit (to rounding).
MicrobatchCosts assemble(const Division& division, int64_t microbatch, const StageCost& whole,
                         const std::vector<StageCost>& units, const std::vector<StageCost>& groups);

/// Adds what was traced of operators; a unit's bytes are those of its operators in a row.
void add_memory(const MemoryTrace& memory, MicrobatchCosts& costs);

}  // namespace penstock::profiler
