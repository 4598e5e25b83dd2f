// What is known so far about time and memory: how long a training step takes and how much the next
// microbatch size will need.
#pragma once

#include <cstdint>

#include "pipeline/profile/profile.hpp"

namespace penstock::profiler {

class Budget {
 public:
  explicit Budget(int64_t global_batch) : global_batch_(global_batch) {}

  /// F and B of one microbatch of `size` samples took `pass_s`.
  void note_pass(int64_t size, double pass_s);
  /// A microbatch of `size` samples takes `bytes` beside what the model itself takes.
  void note_bytes(int64_t size, int64_t bytes);
  /// Both, from what was measured before.
  void note(const MicrobatchCosts& costs);

  /// A training step on one device, as fast as the best size so far makes it; 0 before the first.
  double step_s() const { return step_s_; }
  /// What a microbatch of `size` samples will take, in proportion to the largest size so far.
  double bytes(int64_t size) const;

 private:
  int64_t global_batch_;
  double step_s_ = 0;
  int64_t largest_ = 0, largest_bytes_ = 0;
};

}  // namespace penstock::profiler
