// The least that any order of a plan's actions takes.
#pragma once

#include "simulator/adaptive/adaptive.hpp"
#include "simulator/adaptive/stage_links.hpp"

namespace penstock {

/// No program of the problem's actions is simulated to end earlier, however it runs backwards. Each
/// rank is a machine whose actions have heads and tails (J. R. Jackson, "Scheduling a production
/// line to minimize maximum tardiness", 1955): what its microbatch passes before and after. Its F
/// follow their heads, then all of its backwards, and their tails follow these; or all of its W
/// follow the latter. Where a B is faster than I and W, those W that fill the rank's end cost it
/// the difference.
double min_makespan_s(const AdaptiveProblem& problem, const StageLinks& links);

}  // namespace penstock
