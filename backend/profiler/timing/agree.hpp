// Agreement of all ranks on measurements. Every rank calls these at the same point.
#pragma once

#include <functional>
#include <vector>

#include "backend/communication/communicator.hpp"
#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

/// The number of `rank`.
double from_rank(Communicator& communicator, int rank, double value);
/// Each number becomes its mean over ranks.
void mean_over_ranks(Communicator& communicator, const std::vector<double*>& values);
/// The maximum over ranks.
double largest_over_ranks(Communicator& communicator, double value);

/// Runs `action`, in which ranks do not wait for each other. Returns false where a rank has no
/// memory for it.
bool fits_everywhere(Communicator& communicator, const std::function<void()>& action);

/// Every time becomes its mean over ranks.
void mean_over_ranks(Communicator& communicator, ActionTimes& times);
/// Every time of a microbatch size becomes its mean over ranks; sums stay sums.
void mean_over_ranks(Communicator& communicator, MicrobatchCosts& costs);
/// The rounds of all ranks, where each has listed its own, and the jitter of each unit on any of
/// them; neither where ranks have measured different numbers of rounds.
void pool_variation(Communicator& communicator, MicrobatchCosts& costs);

}  // namespace penstock::profiler
