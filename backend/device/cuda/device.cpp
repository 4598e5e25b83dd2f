#include "backend/device/cuda/device.hpp"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <atomic>
#include <shared_mutex>
#include <utility>

#include "backend/device/clock.hpp"
#include "backend/device/cuda/call.hpp"
#include "backend/device/cuda/graph_capture.hpp"
#include "backend/device/cuda/trace.hpp"

namespace penstock::cuda {

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using c10::CachingDeviceAllocator::DeviceStats;
using Entry = c10::CachingDeviceAllocator::TraceEntry;
constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

/// Events on the computing stream, reused because creating one takes longer than recording it.
class EventMarks : public Marks {
 public:
  EventMarks() = default;
  EventMarks(const EventMarks&) = delete;
  EventMarks& operator=(const EventMarks&) = delete;
  ~EventMarks() override {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  void mark() override {
    if (used_ == events_.size()) {
      cudaEvent_t event = nullptr;
      check(cudaEventCreate(&event), "an event for times");
      events_.push_back(event);
    }
    if (used_ == 0) start_s_ = now_s();  // nothing runs: the event passes now
    check(cudaEventRecord(events_[used_++], c10::cuda::getCurrentCUDAStream().stream()),
          "an event for times");
  }

  std::vector<double> times() override {
    std::vector<double> times;
    for (size_t i = 0; i < used_; ++i) {
      check(cudaEventSynchronize(events_[i]), "the work before a time");
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, events_[0], events_[i]), "a time");
      times.push_back(start_s_ + static_cast<double>(milliseconds) * 1e-3);
    }
    used_ = 0;
    return times;
  }

 private:
  std::vector<cudaEvent_t> events_;
  size_t used_ = 0;
  double start_s_ = 0;
};

/// Shared with the allocator's callback, which is never removed.
std::atomic<bool> fail_without_memory_on = false;

/// The allocator calls it under its lock, before it gives memory back to the driver.
void refuse_to_free(const Entry& entry) {
  if (entry.action_ != Entry::SEGMENT_FREE || !fail_without_memory_on) return;
  throw std::runtime_error(
      "the GPU has no memory left. Plan with smaller microbatches, recompute, or more ranks.");
}

class CudaDevice : public ComputeDevice {
 public:
  explicit CudaDevice(int index) : where_(c10::kCUDA, static_cast<c10::DeviceIndex>(index)) {
    at::globalContext().lazyInitDevice(at::kCUDA);  // allocator and generators
    c10::cuda::set_device(where_.index());
    c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(false, where_.index()));
  }

  at::Device where() const override { return where_; }
  std::unique_ptr<Marks> make_marks() override { return std::make_unique<EventMarks>(); }
  bool runs_behind() const override { return true; }
  KernelTrace* trace() override {
    if (!trace_ && no_trace_.empty()) trace_ = make_trace(no_trace_);
    return trace_.get();
  }
  std::string no_trace() const override { return no_trace_; }
  std::unique_ptr<GraphCapture> make_graph_capture() override { return cuda::make_graph_capture(); }
  int64_t held_bytes() const override {
    return stats().allocated_bytes[kAll].current - workspace_bytes();
  }
  int64_t peak_bytes() const override {
    return stats().allocated_bytes[kAll].peak - workspace_bytes();
  }
  int64_t workspace_bytes() const override {
    const auto bytes_of = [](at::cuda::WorkspaceMapWithMutex& workspaces, size_t each) {
      const std::shared_lock lock(workspaces.mutex);
      return static_cast<int64_t>(workspaces.map.size() * each);
    };
    return bytes_of(at::cuda::cublas_handle_stream_to_workspace(),
                    at::cuda::getChosenWorkspaceSize()) +
           bytes_of(at::cuda::cublaslt_handle_stream_to_workspace(),
                    at::cuda::getCUDABlasLtWorkspaceSize());
  }
  void reset_peak() override { allocator::resetPeakStats(where_.index()); }
  int64_t available_bytes() const override {
    const auto now = stats();
    return memory().free + now.reserved_bytes[kAll].current - now.allocated_bytes[kAll].current;
  }
  int64_t other_bytes() const override {
    return memory().total - memory().free - stats().reserved_bytes[kAll].current;
  }
  int64_t peak_reserved_bytes() const override { return stats().reserved_bytes[kAll].peak; }
  int64_t allocations() const override { return stats().num_device_alloc; }
  void give_back_memory() override { allocator::emptyCache(); }
  /// Attached on demand: from then on the allocator reports everything that it does, which takes
  /// time.
  void fail_without_memory(bool on) override {
    if (on && !std::exchange(watches_allocator_, true))
      allocator::attachAllocatorTraceTracker(refuse_to_free);
    fail_without_memory_on = on;
  }

 private:
  struct Memory {
    int64_t free = 0, total = 0;
  };
  static Memory memory() {
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "the GPU's memory");
    return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
  }
  DeviceStats stats() const { return allocator::getDeviceStats(where_.index()); }
  at::Device where_;
  std::unique_ptr<KernelTrace> trace_;  // made on demand
  std::string no_trace_;
  bool watches_allocator_ = false;
};

}  // namespace

std::unique_ptr<ComputeDevice> open_device(int index) {
  return std::make_unique<CudaDevice>(index);
}

}  // namespace penstock::cuda
