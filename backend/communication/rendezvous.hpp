// How the ranks of a run meet: they check that they run the same thing, set their clocks to rank
// 0's, and report to it.
#pragma once

#include <string>
#include <vector>

#include "backend/communication/shared_store.hpp"
#include "launch/worker_protocol.hpp"

namespace penstock {

/// A rank's place in a run.
struct Seat {
  SharedStore& store;
  int rank = 0, size = 1;
};

inline Seat seat_of_rank(const WorkerTask& task, SharedStore& store) {
  return {store, task.rank, task.world_size};
}
/// Number 0 is where the store is, which has to stay until all others have ended.
inline Seat seat_of_process(const WorkerTask& task, SharedStore& store) {
  return {store, task.process, task.world_size};
}

/// Every rank states the same facts. Where one is not the same everywhere, or a rank refuses to
/// run, all ranks that came throw InputError with every value and the ranks that have it. Throws
/// PeerError naming the ranks that did not come within `patience_s`.
void shake_hands(const Seat& seat, const Facts& facts, double patience_s = kStartTimeout_s);

/// Instead of shake_hands: this rank has found a mistake, and the others are to end with it.
/// Returns when they have heard, or after seconds.
void refuse_to_run(const Seat& seat, const std::string& mistake);

/// Seconds to add to this rank's steady clock for rank 0's: the shortest of several round trips
/// through the store. 0 where the clocks agree as far as that can tell.
double clock_offset_s(const Seat& seat);

/// What every rank says, on rank 0; nothing on the others. `key` is used once in a run.
std::vector<std::string> gather(const Seat& seat, const std::string& key, const std::string& value);

}  // namespace penstock
