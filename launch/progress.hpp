// Progress of a worker, in memory that it shares with the process that started it: still readable
// after the worker was killed, at the cost of a few stores per action. The other way the process
// asks the worker to stop.
#pragma once

#include <array>
#include <atomic>
#include <compare>
#include <cstdint>

#include "pipeline/job/parameters.hpp"

namespace penstock {

/// Two hold a rank's latest snapshots; the third takes the place of one that is being saved.
inline constexpr size_t kSlots = most_snapshots;

/// The next step after each of a rank's snapshots; -1: none, or not complete.
using SlotSteps = std::array<int64_t, kSlots>;

struct RankSlots {
  SlotSteps steps{-1, -1, -1};
  std::array<bool, kSlots> unsaved{};  // a checkpoint is to be written from it
};

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
  /// of all its bytes (supervision/checksum.hpp). `unsaved`: it is to stay until `saved`.
  void set_snapshot(size_t slot, int64_t next_step, uint64_t checksum = 0, bool unsaved = false);
  /// The slot may be used again.
  void saved(size_t slot);
  /// Later snapshots are taken again by a run that goes on with `next_step`.
  void forget_snapshots_after(int64_t next_step);
  /// Another process has a copy of the snapshot before that step; -1: of none.
  void set_copied(int64_t next_step);
  int64_t copied() const;
  RankSlots slots() const;
  uint64_t checksum(size_t slot) const;

 private:
  struct Slot {
    std::atomic<int64_t> next_step;
    std::atomic<uint64_t> checksum, unsaved;
  };
  struct Shared {
    std::atomic<uint64_t> place, activity, stop;
    std::atomic<int64_t> copied;
    std::array<Slot, kSlots> slots;
  };
  void map();
  int descriptor_ = -1;
  Shared* shared_ = nullptr;
};

}  // namespace penstock
