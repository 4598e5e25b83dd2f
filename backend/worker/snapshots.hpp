// Snapshots of a rank's state in memory that outlives its process, taken beside the next step.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "backend/communication/spare_time.hpp"
#include "backend/data/safetensors.hpp"
#include "backend/device/issued_work.hpp"
#include "launch/progress.hpp"
#include "launch/supervision/slot.hpp"

namespace penstock {

class Snapshots {
 public:
  /// `slots`: descriptors. What lies in them is in `progress`. Copies while `spare` is lent, or
  /// where somebody waits for the copy. Both outlive it. `threads` copy; left out, one beside the
  /// step of a CPU, which needs its cores, and up to four beside a GPU's, since one is slower than
  /// a fast step.
  Snapshots(const std::vector<int>& slots, SharedProgress& progress, SpareTime& spare,
            std::optional<int> threads = std::nullopt)
      : slots_(slots.begin(), slots.end()), progress_(progress), spare_(spare), threads_(threads) {}
  ~Snapshots() { join(); }
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

  /// Copies the state that `next_step` begins with into a slot (launch/supervision/rotation.hpp):
  /// `now` before it returns, `later` in a thread. Nobody changes `later` until `finish` returns.
  /// Tensors on a GPU are copied as all work issued before this call leaves them.
  /// `unsaved`: a checkpoint is to be written from it. Waits for such ones where the others take
  /// all slots. Throws what the copy before threw.
  void begin(int64_t next_step, const NamedTensors& now, const NamedTensors& later,
             bool unsaved = false);
  /// Returns when the copy that was begun last is complete. Throws std::system_error where there
  /// was no memory for it.
  void finish();
  /// The rank has none any more, as where it loads another state.
  void forget();
  /// Takes the memory of two snapshots, one of which is there, that are larger by so many bytes: it
  /// takes far longer than a copy, and may fail. Throws as `finish`.
  void reserve(int64_t more_bytes);

  /// The slot of the snapshot before that step, which is there, as a .safetensors file of this
  /// process.
  std::filesystem::path file(int64_t next_step) const;

  /// Called in a thread, in the middle of a copy (backend/worker/faults.hpp).
  std::function<void(int64_t next_step)> while_copying = [](int64_t) {};
  /// Called in the thread, when a snapshot is complete.
  std::function<void(int64_t next_step)> on_complete = [](int64_t) {};

 private:
  void join();
  uint64_t copy(const NamedTensors& tensors, size_t slot, int64_t next_step, int threads,
                const IssuedWork& issued, const SpareTime::Wanted& time);
  size_t wait_for_slot() const;
  void free_idle(size_t next);

  std::vector<MappedSlot> slots_;
  SharedProgress& progress_;
  SpareTime& spare_;
  std::optional<int> threads_;
  std::thread copying_;
  std::exception_ptr problem_;  // of it
};

}  // namespace penstock
