// The times of actions that are issued one after the other: by the clock; on a GPU by events, or by
// the device's own records, once all have run.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/device/clock.hpp"
#include "backend/device/device.hpp"
#include "backend/profiler/timing/kernel_times.hpp"

namespace penstock::profiler {

/// The time of an action. On a GPU `device` includes waiting for the host unless it is traced,
/// which makes `host` longer.
struct Seconds {
  double device = 0;
  double host = 0;  // to issue it; 0 where the host is the device
};

class Stopwatch {
 public:
  /// `clock_s`: seconds of the host, by the steady clock except in tests.
  explicit Stopwatch(ComputeDevice& device, std::function<double()> clock_s = now_s);
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  /// Forgets unfinished times. `traced`: times are by the device's records, where it has them.
  /// Nothing may be running on the device.
  void begin(bool traced);
  bool traced() const { return trace_ != nullptr; }
  /// Were the times of the last `finish` by the device's records?
  bool recorded() const { return recorded_; }
  /// The number of times that records were lost.
  int lost() const { return lost_; }
  /// Runs the action; `seconds`, which must outlive `finish`, is set by it.
  template <class Action>
  void time(Seconds& seconds, Action&& action) {
    marks_->mark();
    const double begin_s = clock_s_();
    action();
    windows_.push_back({begin_s, clock_s_()});
    marks_->mark();
    timed_.push_back(&seconds);
  }
  /// Waits for the device and sets all times: between marks, where records are lost or impossible.
  void finish();

 private:
  void forget_records() noexcept;
  std::vector<double> running_by_records();

  ComputeDevice& device_;
  std::unique_ptr<Marks> marks_;
  std::function<double()> clock_s_;
  KernelTrace* trace_ = nullptr;
  bool recorded_ = false;
  int lost_ = 0;
  std::vector<Seconds*> timed_;       // one for each two marks
  std::vector<IssueWindow> windows_;  // when the host issued each
};

/// The time of one action alone.
template <class Action>
Seconds timed(Stopwatch& watch, bool traced, Action&& action) {
  Seconds seconds;
  watch.begin(traced);
  watch.time(seconds, action);
  watch.finish();
  return seconds;
}

}  // namespace penstock::profiler
