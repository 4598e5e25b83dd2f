// Exact faults for tests: the file that PENSTOCK_FAULTS names lists them, a line each.
//
//   1 7 12 kill      rank 1, before the action at position 12 of its program, in step 7
//   0 3 end throw    after the last action
//   2 5 copy kill    while the snapshot that step 5 begins with is copied
//
// Ranks and positions count from 0, steps from 1. A fault is `kill` or `throw`. It happens once:
// its line then begins with `#`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

namespace penstock {

class Faults {
 public:
  /// Reads the faults of `rank`; there are none where the variable is not set. Throws InputError.
  explicit Faults(int rank);

  static constexpr int end = -1, copy = -2;  // positions
  /// Causes the fault of that place, if it has one. Any thread may call it.
  void at(int64_t step, int position);

 private:
  struct Fault {
    int64_t line = 0;  // its offset in the file
    int64_t step = 0;
    int position = 0;
    std::string what;
  };
  std::string take(int64_t step, int position);
  std::filesystem::path path_;
  bool any_ = false;  // there were some: else an action takes no lock
  std::mutex mutex_;  // of what follows: a copy has a thread of its own
  std::vector<Fault> faults_;
};

}  // namespace penstock
