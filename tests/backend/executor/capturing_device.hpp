// The CPU as a device that captures graphs, with the effects of CUDA graphs on memory.
#pragma once

#include <memory>
#include <vector>

#include "backend/device/device.hpp"

namespace penstock::test {

struct CaptureOptions {
  /// The number of captures that succeed; the next one fails as if it read a value.
  int max_captures = 1 << 30;
  /// The times that measurements of the device give, the last one repeatedly. Empty: the clock's.
  std::vector<double> measured_s;
  int64_t available_bytes = int64_t{1} << 40;
};

/// Captures the operators below autograd, each with the memory that it reads and writes. As on a
/// GPU nothing has run at capture: its results are overwritten (by NaN, or 0). Memory that a replay
/// may reuse, of other graphs and held by nobody when this capture began, is overwritten before it.
/// An operator that reads a value on the host cannot be captured, unless it is a count.
std::unique_ptr<ComputeDevice> make_capturing_device(CaptureOptions options = {});

}  // namespace penstock::test
