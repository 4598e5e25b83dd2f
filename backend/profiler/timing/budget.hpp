// Estimates from the measurements so far: the time of a training step, and the memory of the next
// microbatch size.
#pragma once

#include <cstdint>

#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

/// The most that a microbatch holds in the whole model, beside the model itself.
int64_t peak_bytes(const MicrobatchCosts& costs);

class Budget {
 public:
  explicit Budget(int64_t global_batch) : global_batch_(global_batch) {}

  /// F and B of one microbatch of `size` samples took `pass_s`.
  void add_pass(int64_t size, double pass_s);
  /// A microbatch of `size` samples takes `bytes` besides the model itself.
  void add_bytes(int64_t size, int64_t bytes);
  /// Both, from earlier measurements.
  void add(const MicrobatchCosts& costs);

  /// Seconds of a training step on one device at the best size so far; 0 before the first.
  double step_s() const { return step_s_; }
  /// Bytes of a microbatch of `size` samples, in proportion to the largest size so far.
  double bytes(int64_t size) const;

 private:
  int64_t global_batch_;
  double step_s_ = 0;
  int64_t largest_ = 0, largest_bytes_ = 0;
};

}  // namespace penstock::profiler
