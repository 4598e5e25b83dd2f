// The stages whose actions an F or a backward waits for, and how long what they send takes.
#pragma once

#include <vector>

#include "simulator/adaptive/adaptive.hpp"

namespace penstock {

struct StageLink {
  int stage;
  double seconds;
};

struct StageLinks {
  StageLinks() = default;
  explicit StageLinks(const AdaptiveProblem& problem);

  std::vector<std::vector<StageLink>> forward, backward;  // by the stage that waits
};

/// Activations from one stage to a later one, or gradients to an earlier one, over links that
/// nothing else uses; 0 on the same rank.
double transfer_s(const AdaptiveProblem& problem, int from, int to);

}  // namespace penstock
