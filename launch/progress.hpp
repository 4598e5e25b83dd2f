// Progress of a worker, in memory that it shares with the process that started it: still readable
// after the worker was killed, at the cost of one store per action.
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock {

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
  };
  void set(Place place);
  Place get() const;

 private:
  void map();
  int descriptor_ = -1;
  std::atomic<uint64_t>* word_ = nullptr;
};

}  // namespace penstock
