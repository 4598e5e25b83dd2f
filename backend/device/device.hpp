// The device that the executor computes on: the CPU, or a GPU that the module penstock-cuda.so
// opens (cuda_module.hpp). No CUDA header is seen on this side.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/device/graph_capture.hpp"

namespace penstock {

/// Time stamps in a device's work. On a GPU a mark is passed when the work enqueued before it has
/// run, not when it was enqueued.
class Marks {
 public:
  virtual ~Marks() = default;
  /// Marks this point.
  virtual void mark() = 0;
  /// The times of all marks since the last call, in order, in seconds on the steady clock. All of
  /// them have been passed. On a GPU nothing may be running or enqueued at the first of them.
  virtual std::vector<double> times() = 0;
};

/// A kernel, copy or fill that a device ran, in seconds on the steady clock.
struct Kernel {
  double called_s = 0, issued_s = 0;  // begin and end of the host's call that issued it
  double start_s = 0, end_s = 0;
};

/// The device's own records of the kernels that it runs.
class KernelTrace {
 public:
  virtual ~KernelTrace() = default;
  /// Records everything issued from now on, which makes issuing slower.
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
  /// Does it run asynchronously, behind the host that issues its work?
  virtual bool runs_behind() const = 0;
  /// Null where kernels are not recorded …
  virtual KernelTrace* trace() = 0;
  /// … and why, for a device whose driver refuses it.
  virtual std::string no_trace() const = 0;
  /// Null where work cannot be captured.
  virtual std::unique_ptr<GraphCapture> make_graph_capture() = 0;
  /// Bytes of tensors held now, and their peak since the last `reset_peak`, without the workspaces
  /// of libraries …
  virtual int64_t held_bytes() const = 0;
  virtual int64_t peak_bytes() const = 0;
  /// … which take this much once they have been used (cuBLAS: a workspace for each thread).
  virtual int64_t workspace_bytes() const = 0;
  virtual void reset_peak() = 0;
  /// Bytes that tensors could still get, of the machine or the GPU.
  virtual int64_t available_bytes() const = 0;
  /// Bytes not taken by tensors: of the process, or of the GPU by any process.
  virtual int64_t other_bytes() const = 0;
  /// Bytes that a GPU's allocator has taken from the driver, at most since the last `reset_peak`:
  /// for tensors, workspaces, and what it keeps for more; 0 on a CPU, where nothing is kept apart.
  virtual int64_t peak_reserved_bytes() const = 0;
  /// How often the allocator asked the driver for memory, which stalls a GPU.
  virtual int64_t allocations() const = 0;
  /// Gives memory that no tensor holds back to the driver. Waits until the device is idle.
  virtual void give_back_memory() = 0;
  /// While on, running out of memory fails at once. Otherwise the allocator first frees its cache,
  /// for which it waits until the device is idle.
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

/// Copies `tensor` to the device; the host does not wait for the copy.
at::Tensor on_device(at::Tensor tensor, at::Device device);

}  // namespace penstock
