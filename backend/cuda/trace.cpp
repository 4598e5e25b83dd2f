#include "backend/cuda/trace.hpp"

#include <cupti.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "backend/cuda/call.hpp"

namespace penstock::cuda {

namespace {

/// What the device ran, and the calls that issued it.
constexpr CUpti_ActivityKind recorded[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                           CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
                                           CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER};

double seconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

std::string message(CUptiResult result) {
  const char* text = nullptr;
  cuptiGetResultString(result, &text);
  return text == nullptr ? "CUPTI fails" : text;
}

void check_cupti(CUptiResult result) {
  if (result != CUPTI_SUCCESS) throw std::runtime_error("kernel times: " + message(result));
}

/// CUPTI's callbacks have no argument of the caller's, so there is one for the process.
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

  /// All since the last time.
  std::vector<Kernel> take() {
    const std::lock_guard lock(mutex_);
    std::vector<Kernel> kernels;
    kernels.reserve(runs_.size());
    bool lost = std::exchange(dropped_, 0) > 0;
    for (auto& [number, kernel] : std::exchange(runs_, {})) {
      const auto call = calls_.find(number);
      kernel.called_s = call == calls_.end() ? kernel.start_s : call->second.begin_s;
      kernel.issued_s = call == calls_.end() ? kernel.start_s : call->second.end_s;
      lost |= kernel.end_s == 0;  // so CUPTI says that it has no time
      kernels.push_back(kernel);
    }
    calls_.clear();
    if (lost) throw std::runtime_error("kernel times: records are lost");
    return kernels;
  }

 private:
  struct Call {
    double begin_s = 0, end_s = 0;
  };
  template <class Run>
  void add_run(const CUpti_Activity& record) {
    const auto& run = reinterpret_cast<const Run&>(record);
    runs_.emplace_back(run.correlationId,
                       Kernel{.start_s = seconds(run.start), .end_s = seconds(run.end)});
  }
  void add_call(const CUpti_Activity& record) {
    const auto& call = reinterpret_cast<const CUpti_ActivityAPI&>(record);
    const Call own{seconds(call.start), seconds(call.end)};
    const auto [found, fresh] = calls_.try_emplace(call.correlationId, own);
    if (fresh) return;  // else the runtime's call and the driver's within it
    found->second.begin_s = std::min(found->second.begin_s, own.begin_s);
    found->second.end_s = std::max(found->second.end_s, own.end_s);
  }

  std::mutex mutex_;
  std::vector<std::pair<uint32_t, Kernel>> runs_;  // with the number of the call that issued it
  std::map<uint32_t, Call> calls_;
  size_t dropped_ = 0;
};

constexpr size_t buffer_bytes = size_t{4} << 20, alignment = 8;

void CUPTIAPI request_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(alignment, buffer_bytes));
  *size = *buffer == nullptr ? 0 : buffer_bytes;
  *most_records = 0;  // as many as it holds
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

/// The clock of all our measurements, instead of one that may be set meanwhile.
uint64_t CUPTIAPI steady_nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

class CuptiTrace : public KernelTrace {
 public:
  CuptiTrace() {
    check_cupti(cuptiActivityRegisterTimestampCallback(steady_nanoseconds));
    check_cupti(cuptiActivityRegisterCallbacks(request_buffer, complete_buffer));
  }

  void start() override {
    try {
      for (const CUpti_ActivityKind kind : recorded) check_cupti(cuptiActivityEnable(kind));
    } catch (...) {
      for (const CUpti_ActivityKind kind : recorded) cuptiActivityDisable(kind);
      throw;
    }
  }
  std::vector<Kernel> stop() override {
    check(cudaDeviceSynchronize(), "the work that is recorded");
    for (const CUpti_ActivityKind kind : recorded) check_cupti(cuptiActivityDisable(kind));
    check_cupti(cuptiActivityFlushAll(0));
    return Records::all().take();
  }
};

}  // namespace

std::unique_ptr<KernelTrace> make_trace(std::string& problem) {
  try {
    auto trace = std::make_unique<CuptiTrace>();
    trace->start();
    trace->stop();
    return trace;
  } catch (const std::runtime_error& error) {
    problem = error.what();
    return nullptr;
  }
}

}  // namespace penstock::cuda
