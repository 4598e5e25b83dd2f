#include "backend/profiler/timing/stopwatch.hpp"

#include <exception>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace penstock::profiler {
namespace {

/// The tolerance between the clocks of kernels and of marks.
constexpr double kMaxAboveMarks = 1.05;

}  // namespace

Stopwatch::Stopwatch(ComputeDevice& device, std::function<double()> clock_s)
    : device_(device), marks_(device.make_marks()), clock_s_(std::move(clock_s)) {}

Stopwatch::~Stopwatch() { forget_records(); }

void Stopwatch::forget_records() noexcept {
  try {
    if (trace_ != nullptr) std::exchange(trace_, nullptr)->stop();
  } catch (const std::exception&) {  // its records are of no use any more
  }
}

void Stopwatch::begin(bool traced) {
  marks_->times();
  timed_.clear();
  windows_.clear();
  forget_records();
  trace_ = traced ? device_.trace() : nullptr;
  if (trace_ != nullptr) trace_->start();
}

void Stopwatch::finish() {
  const std::vector<double> times = marks_->times();
  for (size_t i = 0; i < timed_.size(); ++i) {
    timed_[i]->device = times[2 * i + 1] - times[2 * i];
    if (device_.runs_behind()) timed_[i]->host = windows_[i].end_s - windows_[i].begin_s;
  }
  recorded_ = false;
  if (trace_ == nullptr) return;
  const std::vector<double> running = running_by_records();
  const double sum_s = std::accumulate(running.begin(), running.end(), 0.0);
  // Kernels take some time, but no longer than from the first mark to the last.
  recorded_ = sum_s > 0 && sum_s <= kMaxAboveMarks * (times.back() - times.front());
  if (!recorded_) ++lost_;
  for (size_t i = 0; recorded_ && i < timed_.size(); ++i) timed_[i]->device = running[i];
}

/// The seconds of each action; nothing where the records are lost.
std::vector<double> Stopwatch::running_by_records() {
  try {
    return running_s(std::exchange(trace_, nullptr)->stop(), windows_);
  } catch (const std::runtime_error&) {
    return {};
  }
}

}  // namespace penstock::profiler
