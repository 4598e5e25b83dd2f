// Exact faults for tests: the file that PENSTOCK_FAULTS names lists them, a line each.
//
//   1 7 12 kill      rank 1, before the action at position 12 of its program, in step 7
//   1 7 12.5 kill    in that action: at its first operator or wait, at its end if it has neither
//   0 3 end throw    after the last action
//   2 5 copy kill    while the snapshot that step 5 begins with is copied
//
// Ranks and positions count from 0, steps from 1. Kinds are `kill` (SIGKILL), `stop` (SIGSTOP),
// `spin` (a loop without end) and `throw`, which is not possible in an action. A fault happens
// once: its line then begins with `#`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace penstock {

class Faults {
 public:
  /// Reads the faults of `rank`; there are none where the variable is not set. Throws InputError.
  explicit Faults(int rank);
  ~Faults() { disarm(); }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  static constexpr int end = -1, copy = -2;  // positions
  /// Causes the fault of that place, if it has one, and prepares one in the action that begins.
  /// Throws what a fault throws. Any thread may call it.
  void at(int64_t step, int position);
  /// A wait in an action: causes the fault that was prepared.
  static void in_wait();

 private:
  struct Fault {
    int64_t line = 0;  // its offset in the file
    int64_t step = 0;
    int position = 0;
    bool within = false;  // the action
    std::string what;
  };
  std::string take(int64_t step, int position, bool within);
  void arm(const std::string& what);
  void disarm();
  std::filesystem::path path_;
  bool any_ = false;  // there were some: else an action takes no lock
  std::mutex mutex_;  // of what follows: a copy has a thread of its own
  std::vector<Fault> faults_;
  std::optional<uint64_t> operators_;  // handle of the callback at operators
};

}  // namespace penstock
