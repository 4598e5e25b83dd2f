// How long actions take that are issued one after the other: read from the clock, on a GPU from
// events in place, or from the device's own records, once all have run.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/device/device.hpp"
#include "backend/profiler/timing/clock.hpp"
#include "backend/profiler/timing/kernel_times.hpp"

namespace penstock::profiler {

/// Of an action. On a GPU `device` includes what it waited for its host, but not where it is
/// traced, which makes `host` longer.
struct Seconds {
  double device = 0;
  double host = 0;  // that issued it; 0 where it is the device
};

class Stopwatch {
 public:
  /// `clock_s`: seconds of the host, the steady clock but in tests.
  explicit Stopwatch(ComputeDevice& device, std::function<double()> clock_s = now_s);
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  /// Forgets what was not finished. `traced`: by the records of a device that has them. Nothing may
  /// be running on the device.
  void begin(bool traced);
  bool traced() const { return trace_ != nullptr; }
  /// Were the device's records there, at the last `finish`?
  bool recorded() const { return recorded_; }
  /// How often they were lost.
  int lost() const { return lost_; }
  /// Runs the action; `seconds`, which has to stay, is set when all is finished.
  template <class Action>
  void time(Seconds& seconds, Action&& action) {
    marks_->mark();
    const double begin_s = clock_s_();
    action();
    windows_.push_back({begin_s, clock_s_()});
    marks_->mark();
    timed_.push_back(&seconds);
  }
  /// Waits for the device. Where its records are lost, or say what cannot be, times are those in
  /// place.
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
  std::vector<Seconds*> timed_;       // what lies between each two marks
  std::vector<IssueWindow> windows_;  // and when the host issued it
};

/// Of one action alone.
template <class Action>
Seconds timed(Stopwatch& watch, bool traced, Action&& action) {
  Seconds seconds;
  watch.begin(traced);
  watch.time(seconds, action);
  watch.finish();
  return seconds;
}

}  // namespace penstock::profiler
