// The rendezvous of a run's ranks: they check that they run the same thing, align their clocks with
// rank 0's, and report to it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backend/communication/shared_store.hpp"
#include "launch/worker_protocol.hpp"

namespace penstock {

/// A rank's place in a run.
struct Seat {
  SharedStore& store;
  int rank = 0, size = 1;
  std::pair<int, int> machine = {};  // the first on its machine, and how many there; {}: not known
};

inline Seat seat_of_rank(const WorkerTask& task, SharedStore& store) {
  return {store, task.rank, task.world_size};
}
/// Number 0 hosts the store, which has to stay until all others have ended.
inline Seat seat_of_process(const WorkerTask& task, SharedStore& store) {
  return {store, task.process, task.world_size};
}
/// Among all that meet, spares too.
inline Seat seat_at_meeting(const WorkerTask& task, SharedStore& store) {
  return {store, task.process, task.processes, {task.process - task.local_rank, task.local_size}};
}

/// Every rank states its facts. Where one differs between ranks, or a rank refuses to run, all
/// ranks that came throw InputError with every value and the ranks that have it; so they do where
/// ranks are not numbered machine by machine. Throws PeerError naming the ranks that did not come
/// within `timeout_s`.
void shake_hands(const Seat& seat, const Facts& facts, double timeout_s = kStartTimeout_s);

/// Replaces shake_hands on a rank that has found a user's mistake: the others end with it too.
/// Returns when they have read it, or after a few seconds.
void refuse_to_run(const Seat& seat, const std::string& mistake);

/// Seconds to add to this rank's steady clock to get rank 0's, by the shortest of several round
/// trips through the store; 0 where the clocks agree within its resolution.
double clock_offset_s(const Seat& seat);

/// Returns every rank's `value` on rank 0, nothing on the others. `key` is used once in a run.
std::vector<std::string> gather(const Seat& seat, const std::string& key, const std::string& value);

}  // namespace penstock
