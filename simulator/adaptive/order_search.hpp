// Better orders of a program's actions, found by changing one action at a time.
#pragma once

#include <cstdint>

#include "simulator/adaptive/adaptive.hpp"
#include "simulator/adaptive/stage_links.hpp"

namespace penstock {

/// When a program of F, B, I and W ends that waits for nothing but its compute and its transfers,
/// each over a link of its own: no later than in simulation.
double alone_s(const AdaptiveProblem& problem, const StageLinks& links, const Program& compute);

struct Reordered {
  Program program;
  int64_t actions = 0;  // as many began in all tries
};

/// Draws so many changes at random, the same ones every time: an action goes to another place in
/// its rank's list, a B becomes an I and a W, or these a B. A change stays where the program then
/// takes no longer, judged as above, and keeps to the memory that it had or the cap. Ends where it
/// takes no more than `enough_s`.
Reordered reordered(const AdaptiveProblem& problem, const StageLinks& links, const Program& compute,
                    int64_t tries, double enough_s);

}  // namespace penstock
