// The time of a stage that recomputes some of its segments, or whose layers choose to keep less:
// its backward runs their forwards again. Its memory: stage_memory.hpp, of layers with_choices.
#pragma once

#include <cstdint>
#include <string>

#include "graph/cuts/slice.hpp"
#include "graph/graph.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock {

struct RecomputeCosts {
  double forward_s = 0;       // of the forwards that run again …
  double forward_host_s = 0;  // … and of the host that issues them
};

/// The costs of making again what a stage does not keep; 0 where its slice has no recomputed
/// segments and no choices.
RecomputeCosts recompute_costs(const Graph& model, const Slicing& slicing, int stage,
                               const MicrobatchCosts& measured);

/// The part that the choice of one operator, a layer, takes; 0 where it makes none.
double choice_s(const StageSlice& slice, const MicrobatchCosts& measured, OperatorId op);

/// The bytes of layers as they choose; `place` is the profile's path. Throws InputError for a
/// choice that a layer does not have.
MicrobatchCosts with_choices(MicrobatchCosts measured, const Slicing& slicing,
                             const std::string& place);

}  // namespace penstock
