// The CPU as a device that records: what CUDA graphs do to memory, without a GPU.
#pragma once

#include <memory>
#include <vector>

#include "backend/device/device.hpp"

namespace penstock::test {

struct RecordingOptions {
  /// So many recordings succeed; the next one fails as if it read a value.
  int most_recordings = 1 << 30;
  /// What each measurement of the device gives, the last again and again. Empty: the clock's.
  std::vector<double> measured_s;
  int64_t available_bytes = int64_t{1} << 40;
};

/// Notes the operators below autograd, each with the memory that it reads and writes. As on a GPU
/// nothing of a recording has run: what it gave is spoiled (not a number, or 0). What a replay may
/// use again, memory of other recordings that nobody held when this one began, is spoiled before
/// it. An operator that reads a value for the host cannot be recorded, unless it is a count.
std::unique_ptr<ComputeDevice> make_recording_device(RecordingOptions options = {});

}  // namespace penstock::test
