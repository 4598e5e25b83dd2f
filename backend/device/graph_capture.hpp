// Capture of a device's work as graphs that are replayed as a whole: CUDA graphs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace penstock {

/// Captured work. It reads and writes the memory that it did at capture.
class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
  /// Issues the work on the computing stream.
  virtual void replay() = 0;
};

/// Graphs that share one pool of memory.
class GraphCapture {
 public:
  virtual ~GraphCapture() = default;
  /// Captures the work that `work` issues on the computing stream; none of it runs. Memory that it
  /// asks for comes from the pool, and once `work` releases it the next capture may use it: replay
  /// graphs in the order of their capture. Throws what `work` throws, and std::runtime_error where
  /// it does something that cannot be captured (waits for the device, reads a value); the capture
  /// is then of no more use, the device is.
  virtual std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) = 0;
  /// Bytes of the pool that no tensor holds now.
  virtual int64_t unheld_bytes() const = 0;
};

}  // namespace penstock
