#include "backend/profiler/stopwatch.hpp"

#include <utility>

#include "backend/profiler/clock.hpp"

namespace penstock::profiler {

double Stopwatch::host_s() {
  KernelTrace* const trace = device_.trace();
  return trace != nullptr ? trace->now_s() : now_s();
}

void Stopwatch::begin(bool traced) {
  marks_->times();
  timed_.clear();
  windows_.clear();
  if (trace_ != nullptr) trace_->stop();
  trace_ = traced ? device_.trace() : nullptr;
  if (trace_ != nullptr) trace_->start();
}

void Stopwatch::finish() {
  const std::vector<double> times = marks_->times();
  for (size_t i = 0; i < timed_.size(); ++i) {
    timed_[i]->device = times[2 * i + 1] - times[2 * i];
    if (device_.runs_behind()) timed_[i]->host = windows_[i].end_s - windows_[i].begin_s;
  }
  if (trace_ == nullptr) return;
  const std::vector<double> running = running_s(std::exchange(trace_, nullptr)->stop(), windows_);
  for (size_t i = 0; i < timed_.size(); ++i) timed_[i]->device = running[i];
}

}  // namespace penstock::profiler
