// Progress of a worker, in memory that it shares with the process that started it: still readable
// after the worker was killed, at the cost of one store per action. The other way the process asks
// the worker to stop.
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

  /// The worker is to end after the step in progress.
  void ask_to_stop() { shared_->stop.store(1, std::memory_order_relaxed); }
  bool asked_to_stop() const { return shared_->stop.load(std::memory_order_relaxed) != 0; }

 private:
  struct Shared {
    std::atomic<uint64_t> place, stop;
  };
  void map();
  int descriptor_ = -1;
  Shared* shared_ = nullptr;
};

}  // namespace penstock
