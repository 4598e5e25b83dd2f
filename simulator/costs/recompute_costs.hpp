// Changed costs of a stage that recomputes some of its segments (activation checkpointing; T. Chen
// et al., Training Deep Nets with Sublinear Memory Cost, 2016).
//
// F keeps, of a recomputed segment, only what it hands to later segments of the stage. The backward
// goes from the last segment to the first, each recomputed one running its forward again when its
// turn comes; what later segments saved is then free but for what their W still needs.
#pragma once

#include <cstdint>

#include "graph/cuts/slice.hpp"
#include "graph/graph.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock {

struct RecomputeCosts {
  double forward_s = 0;       // of the forwards that run again …
  double forward_host_s = 0;  // … and of the host that issues them
  int64_t saved_bytes = 0;    // from F to B or I, without what the stage was given
  int64_t remade_bytes = 0;   // when the backward holds most: what it has made again
  /// The most beside what is saved; of the backward it may be less than what a segment alone takes,
  /// where much has been let go before.
  int64_t transient_forward_bytes = 0, transient_backward_bytes = 0;
};

/// The changes for a stage whose slice has recomputed segments. `split_backward`: I and W apart.
RecomputeCosts recompute_costs(const Graph& model, const Slicing& slicing, int stage,
                               const MicrobatchCosts& measured, bool split_backward);

}  // namespace penstock
