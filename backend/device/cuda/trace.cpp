#include "backend/device/cuda/trace.hpp"

#include <ATen/ops/zeros.h>
#include <cupti.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "backend/device/clock.hpp"
#include "backend/device/cuda/call.hpp"

namespace penstock::cuda {

namespace {

/// The activities that the device ran, and the calls that issued them.
constexpr CUpti_ActivityKind recorded[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                           CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
                                           CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER};

std::string message(CUptiResult result) {
  const char* text = nullptr;
  cuptiGetResultString(result, &text);
  return text == nullptr ? "CUPTI fails" : text;
}

void check_cupti(CUptiResult result) {
  if (result != CUPTI_SUCCESS) throw std::runtime_error("kernel times: " + message(result));
}

/// CUPTI's clock beside the steady one. (A clock of our own, by
/// cuptiActivityRegisterTimestampCallback, makes CUPTI 13.0 lose the times of kernels.)
class Clock {
 public:
  /// From the closest of several readings of both clocks.
  static Clock read() {
    Clock clock;
    double closest_s = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 5; ++i) {
      const double before_s = now_s();
      uint64_t own = 0;
      check_cupti(cuptiGetTimestamp(&own));
      const double after_s = now_s();
      if (after_s - before_s >= closest_s) continue;
      closest_s = after_s - before_s;
      clock = {own, (before_s + after_s) / 2};
    }
    return clock;
  }
  /// Converts CUPTI's nanoseconds.
  double seconds(uint64_t nanoseconds) const {
    return steady_s_ + static_cast<double>(static_cast<int64_t>(nanoseconds - own_)) * 1e-9;
  }
  /// Did both clocks advance alike from here to `later`? They are read to some microseconds and may
  /// drift as computers' clocks do; a clock that was set is further off.
  bool keeps_up(const Clock& later) const {
    const double off_s = std::abs(seconds(later.own_) - later.steady_s_);
    return off_s <= 20e-6 + 1e-4 * (later.steady_s_ - steady_s_);
  }

 private:
  Clock() = default;
  Clock(uint64_t own, double steady) : own_(own), steady_s_(steady) {}
  uint64_t own_ = 0;
  double steady_s_ = 0;
};

/// A kernel starts before its call only by the error of reading the clocks.
constexpr double kMaxEarly_s = 50e-6;

/// CUPTI's callbacks take no user argument, so there is one for the process.
class Records {
 public:
  static Records& all() {
    static Records records;
    return records;
  }

  void add(const CUpti_Activity& record) {
    const std::lock_guard lock(mutex_);
    switch (record.kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: add_run<CUpti_ActivityKernel10>(record); break;
      case CUPTI_ACTIVITY_KIND_MEMCPY: add_run<CUpti_ActivityMemcpy6>(record); break;
      case CUPTI_ACTIVITY_KIND_MEMSET: add_run<CUpti_ActivityMemset4>(record); break;
      case CUPTI_ACTIVITY_KIND_RUNTIME:
      case CUPTI_ACTIVITY_KIND_DRIVER: add_call(record); break;
      default: break;
    }
  }
  void drop(size_t count) {
    const std::lock_guard lock(mutex_);
    dropped_ += count;
  }

  /// All kernels since the last call, by that clock.
  std::vector<Kernel> take(const Clock& clock) {
    const std::lock_guard lock(mutex_);
    std::vector<Kernel> kernels;
    kernels.reserve(runs_.size());
    bool lost = std::exchange(dropped_, 0) > 0;
    for (const auto& [number, run] : std::exchange(runs_, {})) {
      Kernel kernel{.start_s = clock.seconds(run.begin), .end_s = clock.seconds(run.end)};
      const auto found = calls_.find(number);
      const Span call = found == calls_.end() ? Span{run.begin, run.begin} : found->second;
      kernel.called_s = clock.seconds(call.begin);
      kernel.issued_s = clock.seconds(call.end);
      // CUPTI's mark for a missing time.
      lost |= run.begin == 0 || run.end == 0 || run.end < run.begin ||
              kernel.start_s < kernel.called_s - kMaxEarly_s;
      kernels.push_back(kernel);
    }
    calls_.clear();
    if (lost) throw std::runtime_error("kernel times: records are lost");
    return kernels;
  }

 private:
  struct Span {  // nanoseconds of CUPTI's clock
    uint64_t begin = 0, end = 0;
  };
  template <class Run>
  void add_run(const CUpti_Activity& record) {
    const auto& run = reinterpret_cast<const Run&>(record);
    runs_.emplace_back(run.correlationId, Span{run.start, run.end});
  }
  void add_call(const CUpti_Activity& record) {
    const auto& call = reinterpret_cast<const CUpti_ActivityAPI&>(record);
    const Span own{call.start, call.end};
    const auto [found, fresh] = calls_.try_emplace(call.correlationId, own);
    if (fresh) return;  // otherwise the runtime's call and the driver's within it
    found->second.begin = std::min(found->second.begin, own.begin);
    found->second.end = std::max(found->second.end, own.end);
  }

  std::mutex mutex_;
  std::vector<std::pair<uint32_t, Span>> runs_;  // with the number of the call that issued it
  std::map<uint32_t, Span> calls_;
  size_t dropped_ = 0;
};

constexpr size_t kBufferBytes = size_t{4} << 20, kAlignment = 8;

void CUPTIAPI request_buffer(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;  // no limit
}

void CUPTIAPI complete_buffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t /*size*/,
                              size_t valid_bytes) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    Records::all().add(*record);
  }
  size_t dropped = 0;
  cuptiActivityGetNumDroppedRecords(context, stream, &dropped);
  Records::all().drop(dropped);
  std::free(buffer);
}

class CuptiTrace : public KernelTrace {
 public:
  CuptiTrace() { check_cupti(cuptiActivityRegisterCallbacks(request_buffer, complete_buffer)); }

  void start() override {
    try {
      for (const CUpti_ActivityKind kind : recorded) check_cupti(cuptiActivityEnable(kind));
      clock_ = Clock::read();
    } catch (...) {
      for (const CUpti_ActivityKind kind : recorded) cuptiActivityDisable(kind);
      throw;
    }
  }
  std::vector<Kernel> stop() override {
    check(cudaDeviceSynchronize(), "the work that is recorded");
    for (const CUpti_ActivityKind kind : recorded) check_cupti(cuptiActivityDisable(kind));
    // The device is idle; without force buffers may be held back.
    check_cupti(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
    std::vector<Kernel> kernels = Records::all().take(*clock_);
    if (!clock_->keeps_up(Clock::read()))
      throw std::runtime_error("kernel times: the clock was set meanwhile");
    return kernels;
  }

 private:
  std::optional<Clock> clock_;
};

/// Checks that a fill of memory is recorded with a plausible time.
void try_out(KernelTrace& trace) {
  const double before_s = now_s();
  trace.start();
  at::zeros({1024}, at::kCUDA).fill_(1);
  const std::vector<Kernel> kernels = trace.stop();
  const double after_s = now_s();
  const bool seen = std::ranges::any_of(kernels, [&](const Kernel& kernel) {
    return before_s <= kernel.called_s && kernel.end_s <= after_s;
  });
  if (!seen) throw std::runtime_error("kernel times: CUPTI records nothing");
}

}  // namespace

std::unique_ptr<KernelTrace> make_trace(std::string& problem) {
  try {
    auto trace = std::make_unique<CuptiTrace>();
    try {
      try_out(*trace);
    } catch (const std::runtime_error&) {
      try_out(*trace);  // a first session may lack times
    }
    return trace;
  } catch (const std::runtime_error& error) {
    problem = error.what();
    return nullptr;
  }
}

}  // namespace penstock::cuda
