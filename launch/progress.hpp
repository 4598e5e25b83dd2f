// Progress of a worker, in memory that it shares with the process that started it: still readable
// after the worker was killed, at the cost of a few stores per action. The other way the process
// asks the worker to stop.
#pragma once

#include <array>
#include <atomic>
#include <compare>
#include <cstdint>

namespace penstock {

/// The next step after each of a rank's two snapshots; -1: none, or not complete.
using SlotSteps = std::array<int64_t, 2>;

/// The slot of the snapshot before that step.
inline size_t slot_of(int64_t next_step) { return static_cast<size_t>(next_step % 2); }

/// A rank's doing at its place.
struct Activity {
  enum class Kind : uint8_t {
    outside,  // of a step: loads, validates, saves, serves a script
    acts,     // in a step, and waits for nobody
    waits     // for another rank
  };
  Kind kind = Kind::outside;
  int peer = -1;  // of a wait: the rank that it is for; -1: several
  bool operator==(const Activity&) const = default;
};

class SharedProgress {
 public:
  /// A new one; a child process inherits `descriptor()`. Throws std::system_error.
  SharedProgress();
  /// Maps the memory of that descriptor, in the child.
  explicit SharedProgress(int descriptor);
  SharedProgress(SharedProgress&& other) noexcept;
  SharedProgress(const SharedProgress&) = delete;
  SharedProgress& operator=(const SharedProgress&) = delete;
  ~SharedProgress();

  int descriptor() const { return descriptor_; }
  /// `position` is the action's in the rank's program; -1 between steps.
  struct Place {
    int64_t step = -1;  // -1: not in a step yet
    int position = -1;
    auto operator<=>(const Place&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  void set(Place place);
  Place get() const;
  void set(Activity activity);
  Activity activity() const;

  /// The worker is to end after the step in progress.
  void ask_to_stop() { shared_->stop.store(1, std::memory_order_relaxed); }
  bool asked_to_stop() const { return shared_->stop.load(std::memory_order_relaxed) != 0; }

  /// The worker has a complete snapshot there, of the state before that step; -1: none. `checksum`:
  /// the CRC-32 of all its bytes.
  void set_snapshot(size_t slot, int64_t next_step, uint32_t checksum = 0) {
    shared_->checksums[slot].store(checksum, std::memory_order_relaxed);
    shared_->snapshots[slot].store(next_step, std::memory_order_release);
  }
  /// Later snapshots are taken again by a run that goes on with `next_step`.
  void forget_snapshots_after(int64_t next_step) {
    for (size_t slot : {0, 1}) {
      if (snapshots()[slot] > next_step) set_snapshot(slot, -1);
    }
  }
  SlotSteps snapshots() const {
    return {shared_->snapshots[0].load(std::memory_order_acquire),
            shared_->snapshots[1].load(std::memory_order_acquire)};
  }
  uint32_t checksum(size_t slot) const {
    return shared_->checksums[slot].load(std::memory_order_relaxed);
  }

 private:
  struct Shared {
    std::atomic<uint64_t> place, activity, stop;
    std::array<std::atomic<int64_t>, 2> snapshots;
    std::array<std::atomic<uint32_t>, 2> checksums;
  };
  void map();
  int descriptor_ = -1;
  Shared* shared_ = nullptr;
};

}  // namespace penstock
