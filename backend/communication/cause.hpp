// Which rank a run failed at, where no process watches all of them.
#pragma once

#include "backend/communication/rendezvous.hpp"

namespace penstock {

/// Tells the others through the store how this rank failed, and finds out from them how it came to
/// that: the error of a rank that failed by itself; else that a rank is gone which others lost and
/// which said nothing. Takes a second or two where a rank says nothing. Returns `own` where there
/// is nothing better to say; never throws. `seat`: of the process; number 0 has the store.
WorkerError find_cause(const Seat& seat, const WorkerError& own, int rank_with_store = 0);

}  // namespace penstock
