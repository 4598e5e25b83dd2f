// Snapshots of a rank's state in memory that outlives its process, taken beside the next step.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <thread>

#include "backend/data/safetensors.hpp"
#include "launch/progress.hpp"

namespace penstock {

class Snapshots {
 public:
  /// `slots`: descriptors of the two slots, whose steps are in `progress`, which outlives it.
  Snapshots(std::array<int, 2> slots, SharedProgress& progress)
      : slots_(slots), progress_(progress) {}
  ~Snapshots() {
    if (copying_.joinable()) copying_.join();
  }
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

  /// Copies the state that `next_step` begins with into the slot of that step's parity: `now`
  /// before it returns, `later` in a thread. Nobody changes `later` until `finish` returns. Throws
  /// std::system_error where there is no memory.
  void begin(int64_t next_step, const NamedTensors& now, const NamedTensors& later);
  /// Returns when the copy that was begun last is complete. Throws as `begin`.
  void finish();
  /// The rank has none any more, as where it loads another state.
  void forget();

  /// The slot as a .safetensors file of this process.
  std::filesystem::path file(size_t slot) const;

  /// Called in the thread, in the middle of a copy (backend/worker/faults.hpp).
  std::function<void(int64_t next_step)> while_copying = [](int64_t) {};

 private:
  std::array<int, 2> slots_;
  SharedProgress& progress_;
  std::thread copying_;
  std::exception_ptr problem_;  // of it
};

}  // namespace penstock
