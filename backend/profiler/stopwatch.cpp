#include "backend/profiler/stopwatch.hpp"

#include <exception>
#include <utility>

namespace penstock::profiler {

Stopwatch::Stopwatch(ComputeDevice& device, std::function<double()> clock_s)
    : device_(device), marks_(device.make_marks()), clock_s_(std::move(clock_s)) {}

Stopwatch::~Stopwatch() {
  try {
    if (trace_ != nullptr) trace_->stop();
  } catch (const std::exception&) {  // what it recorded is of no use any more
  }
}

void Stopwatch::begin(bool traced) {
  marks_->times();
  timed_.clear();
  windows_.clear();
  if (trace_ != nullptr) std::exchange(trace_, nullptr)->stop();
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
