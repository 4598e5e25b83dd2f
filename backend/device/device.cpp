#include "backend/device/device.hpp"

#include <utility>

#include "backend/device/clock.hpp"
#include "backend/device/description.hpp"
#include "backend/device/memory.hpp"

namespace penstock {

namespace {

class ClockMarks : public Marks {
 public:
  ClockMarks() { times_.reserve(64); }
  void mark() override { times_.push_back(now_s()); }
  std::vector<double> times() override { return std::exchange(times_, {}); }

 private:
  std::vector<double> times_;
};

class CpuDevice : public ComputeDevice {
 public:
  at::Device where() const override { return at::kCPU; }
  std::unique_ptr<Marks> make_marks() override { return std::make_unique<ClockMarks>(); }
  bool runs_behind() const override { return false; }
  KernelTrace* trace() override { return nullptr; }
  std::string no_trace() const override { return ""; }
  std::unique_ptr<GraphCapture> make_graph_capture() override { return nullptr; }
  int64_t held_bytes() const override { return memory::held_bytes(); }
  int64_t peak_bytes() const override { return memory::peak_bytes(); }
  int64_t workspace_bytes() const override { return 0; }
  void reset_peak() override { memory::reset_peak(); }
  int64_t available_bytes() const override { return profiler::available_bytes(); }
  int64_t other_bytes() const override { return profiler::resident_bytes(); }
  int64_t peak_reserved_bytes() const override { return 0; }
  int64_t allocations() const override { return 0; }
  void give_back_memory() override {}
  void fail_without_memory(bool /*on*/) override {}
};

}  // namespace

ComputeDevice& cpu_device() {
  static CpuDevice device;
  return device;
}

at::Tensor on_device(at::Tensor tensor, at::Device device) {
  if (tensor.device() == device) return tensor;
  return tensor.pin_memory().to(device, /*non_blocking=*/true);
}

}  // namespace penstock
