// Work that a device notes instead of running it, to run it again and again as a whole: CUDA
// graphs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace penstock {

/// What a recorder has noted. It reads and writes the memory that the work did when it was noted.
class Recording {
 public:
  virtual ~Recording() = default;
  /// Issues the work on the computing stream.
  virtual void replay() = 0;
};

/// Can it be faster to replay a step than to run it, where its host took `issued_s` to issue what
/// took `run_s` in all?
inline bool worth_recording(double issued_s, double run_s) { return issued_s >= run_s / 2; }

class Recorder {
 public:
  virtual ~Recorder() = default;
  /// Notes what `work` issues on the computing stream; none of it runs. Memory that it asks for is
  /// the recordings' own, and as soon as `work` lets go of it the next recording may use it: replay
  /// them in the order in which they were recorded. Throws what `work` throws, and
  /// std::runtime_error where it does what cannot be noted (waits for the device, reads a value);
  /// the recorder is then of no more use, the device is.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work) = 0;
  /// Of the recordings' memory: what no tensor holds now.
  virtual int64_t unheld_bytes() const = 0;
};

}  // namespace penstock
