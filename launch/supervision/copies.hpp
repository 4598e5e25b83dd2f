// Copies of snapshots that supervisors send each other, so that a rank's state outlives its
// supervisor: each over a connection of its own, whole and by its checksum, or not at all.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>

#include "launch/progress.hpp"
#include "launch/supervision/fleet.hpp"
#include "launch/supervision/slot.hpp"

namespace penstock {

/// A snapshot of that rank's state before that step.
struct CopyOf {
  int rank = 0;
  int64_t next_step = 0;
  uint64_t checksum = 0;  // of all its bytes
};

/// Sends it to the supervisor there, and returns when that has it. Throws std::runtime_error with
/// the reason where it does not, and soon after `stop`. The process ignores SIGPIPE.
void send_copy(const FleetAddress& to, const CopyOf& what, const SnapshotSlot& slot,
               const std::stop_token& stop);

/// Copies that others have sent to this supervisor: of each rank the two latest.
class Copies {
 public:
  struct Copy {
    SnapshotSlot slot;
    uint64_t checksum = 0;
  };

  Copies() = default;
  /// Ends what is being received.
  ~Copies();
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  /// Owns the socket, from which `greeting` was read, and receives a copy in a thread.
  void receive(int socket, const nlohmann::json& greeting);

  /// By rank, those that are complete.
  std::map<int, SlotSteps> steps() const;
  /// Whole until it is taken, given back, or two later ones are received: a later look at its
  /// checksum tells. Nothing: there is none.
  const Copy* find(int rank, int64_t next_step) const;
  /// It is then no longer here. Nothing: there is none.
  std::optional<Copy> take(int rank, int64_t next_step);
  void forget(int rank, int64_t next_step);
  /// Gives back the memory of all others'.
  void keep_only(const std::set<int>& ranks);
  /// Later ones are taken again by a run that goes on with that step.
  void forget_after(int64_t next_step);

 private:
  struct Held {
    SlotSteps steps;
    std::array<Copy, kSlots> copies;
    std::mutex receiving;  // one at a time
  };
  struct Receiver {
    int socket = -1;
    bool done = false;
    std::jthread thread;
  };
  void serve(Receiver& receiver, const nlohmann::json& greeting);
  void take_in(int socket, const CopyOf& what, int64_t bytes);
  void set_step(Held& held, size_t slot, int64_t next_step);
  std::optional<size_t> slot_of(int rank, int64_t next_step) const;

  mutable std::mutex mutex_;  // of all below, but for copies that are not complete
  std::map<int, Held> held_;  // by rank
  std::list<Receiver> receivers_;
};

}  // namespace penstock
