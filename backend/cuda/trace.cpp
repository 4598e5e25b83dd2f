#include "backend/cuda/trace.hpp"

#include <cupti.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

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

void check(CUptiResult result) {
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

  /// All since the last time; a call of the runtime and the driver's call within it have one number.
  std::vector<Kernel> take() {
    const std::lock_guard lock(mutex_);
    for (auto& [call, kernel] : runs_) {
      const auto found = issued_s_.find(call);
      kernel.issued_s = found == issued_s_.end() ? kernel.start_s : found->second;
    }
    std::vector<Kernel> kernels;
    kernels.reserve(runs_.size());
    for (const auto& [call, kernel] : std::exchange(runs_, {})) kernels.push_back(kernel);
    issued_s_.clear();
    if (std::exchange(dropped_, 0) > 0) throw std::runtime_error("kernel times: records are lost");
    return kernels;
  }

 private:
  template <class Run>
  void add_run(const CUpti_Activity& record) {
    const auto& run = reinterpret_cast<const Run&>(record);
    runs_.emplace_back(run.correlationId,
                       Kernel{.start_s = seconds(run.start), .end_s = seconds(run.end)});
  }
  void add_call(const CUpti_Activity& record) {
    const auto& call = reinterpret_cast<const CUpti_ActivityAPI&>(record);
    const double start_s = seconds(call.start);
    const auto [found, fresh] = issued_s_.try_emplace(call.correlationId, start_s);
    if (!fresh) found->second = std::min(found->second, start_s);
  }

  std::mutex mutex_;
  std::vector<std::pair<uint32_t, Kernel>> runs_;  // with the number of the call that issued it
  std::map<uint32_t, double> issued_s_;            // of each call
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

class CuptiTrace : public KernelTrace {
 public:
  CuptiTrace() { check(cuptiActivityRegisterCallbacks(request_buffer, complete_buffer)); }

  void start() override {
    for (const CUpti_ActivityKind kind : recorded) check(cuptiActivityEnable(kind));
  }
  double now_s() override {
    uint64_t now = 0;
    check(cuptiGetTimestamp(&now));
    return seconds(now);
  }
  std::vector<Kernel> stop() override {
    for (const CUpti_ActivityKind kind : recorded) check(cuptiActivityDisable(kind));
    check(cuptiActivityFlushAll(0));
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
