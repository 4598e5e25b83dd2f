// What the executor computes on: the CPU, or a GPU that the module penstock-cuda.so opens
// (cuda_module.hpp). No CUDA header is seen on this side.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/device/recorder.hpp"

namespace penstock {

/// Points of a device's work in time. On a GPU that is when the work enqueued before has run, not
/// when it was enqueued.
class Marks {
 public:
  virtual ~Marks() = default;
  /// Marks this point.
  virtual void mark() = 0;
  /// Of all marks since the last call, in order: seconds on the steady clock. What they mark has
  /// run. On a GPU nothing may be running or enqueued at the first of them.
  virtual std::vector<double> times() = 0;
};

/// Something that a device ran: a kernel, a copy, a fill. Seconds on the steady clock.
struct Kernel {
  double called_s = 0, issued_s = 0;  // begin and end of the host's call that issued it
  double start_s = 0, end_s = 0;
};

/// The device's own records of what it runs.
class KernelTrace {
 public:
  virtual ~KernelTrace() = default;
  /// Records what is issued from now on, which makes issuing slower.
  virtual void start() = 0;
  /// Waits for the device and ends recording. Throws std::runtime_error where records are lost; it
  /// can be started again.
  virtual std::vector<Kernel> stop() = 0;
};

class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;
  virtual at::Device where() const = 0;
  virtual std::unique_ptr<Marks> make_marks() = 0;
  /// Is its work issued by a host that goes on before it has run?
  virtual bool runs_behind() const = 0;
  /// Null where what it runs is not recorded …
  virtual KernelTrace* trace() = 0;
  /// … and why, for a device whose driver refuses it.
  virtual std::string no_trace() const = 0;
  /// Null where work cannot be recorded.
  virtual std::unique_ptr<Recorder> make_recorder() = 0;
  /// Bytes of tensors held now, and the most since the last `reset_peak`; without what libraries
  /// keep for good …
  virtual int64_t held_bytes() const = 0;
  virtual int64_t peak_bytes() const = 0;
  /// … which is this much, once they have been used (cuBLAS: a workspace for each thread).
  virtual int64_t workspace_bytes() const = 0;
  virtual void reset_peak() = 0;
  /// Bytes that a tensor could still get: of the machine, or of the GPU.
  virtual int64_t available_bytes() const = 0;
  /// Bytes taken beside tensors: by the process, or of the GPU by whatever.
  virtual int64_t other_bytes() const = 0;
  /// How often tensor memory was asked of the driver, which stops a GPU for as long.
  virtual int64_t allocations() const = 0;
  /// Gives memory that no tensor holds back to the driver. It waits until the device is idle.
  virtual void give_back_memory() = 0;
  /// While it is on, memory that the device does not have is a failure at once. Otherwise its
  /// allocator first gives back what it keeps, for which it waits until the device is idle.
  virtual void fail_without_memory(bool on) = 0;
};

/// Memory as backend/device/memory.hpp counts it.
ComputeDevice& cpu_device();

/// Seconds that `action` takes on the device, which was idle before and is idle after it.
template <class Action>
double seconds_on(ComputeDevice& device, Action&& action) {
  const auto marks = device.make_marks();
  marks->mark();
  action();
  marks->mark();
  const std::vector<double> times = marks->times();
  return times[1] - times[0];
}

/// `tensor` on the device; the host does not wait for it to get there.
at::Tensor on_device(at::Tensor tensor, at::Device device);

}  // namespace penstock
