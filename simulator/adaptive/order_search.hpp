// Better orders of a program's actions, found by changing one action at a time.
#pragma once

#include "simulator/adaptive/adaptive.hpp"
#include "simulator/adaptive/stage_links.hpp"

namespace penstock {

/// Draws so many changes at random, the same ones every time: an action goes to another place in
/// its rank's list, a B becomes an I and a W, or these a B. A change stays where the program then
/// takes no longer, judged by its compute and transfers that wait for nothing else, and keeps to
/// the memory that it had or the cap. Ends where it takes no more than `enough_s`. `compute` is a
/// program of F, B, I and W.
Program reordered(const AdaptiveProblem& problem, const StageLinks& links, const Program& compute,
                  int64_t tries, double enough_s);

}  // namespace penstock
