// Finds the rank that a run failed at, where no process watches all ranks.
#pragma once

#include "backend/communication/rendezvous.hpp"

namespace penstock {

/// Publishes this rank's failure in the store and returns the root cause among all ranks': the
/// error of a rank that failed by itself; else that a rank is gone, which others lost and which
/// reported nothing. Returns `own` where there is neither; never throws. Takes a second or two
/// where a rank is silent. `seat`: of the process; number 0 hosts the store.
WorkerError find_cause(const Seat& seat, const WorkerError& own, int rank_with_store = 0);

}  // namespace penstock
