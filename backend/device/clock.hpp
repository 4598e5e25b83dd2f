// The clock of all times.
#pragma once

#include <chrono>

namespace penstock {

/// Seconds of a monotonic clock, which the processes of a machine share.
inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds that `action` takes.
template <class F>
double time_s(F&& action) {
  const double start = now_s();
  action();
  return now_s() - start;
}

}  // namespace penstock
