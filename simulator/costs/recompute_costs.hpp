// The time of a stage that recomputes some of its segments: its backward runs their forwards again.
// Its memory: stage_memory.hpp.
#pragma once

#include <cstdint>

#include "graph/cuts/slice.hpp"
#include "graph/graph.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock {

struct RecomputeCosts {
  double forward_s = 0;       // of the forwards that run again …
  double forward_host_s = 0;  // … and of the host that issues them
};

/// The costs of making again what a stage does not keep; 0 where its slice has no recomputed
/// segments.
RecomputeCosts recompute_costs(const Graph& model, const Slicing& slicing, int stage,
                               const MicrobatchCosts& measured);

}  // namespace penstock
