// Writes something in a thread of its own, one at a time, and tells by a descriptor when it is
// done.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <stop_token>
#include <string>

namespace penstock {

class Saver {
 public:
  /// Returns soon after `stop`; throws where it cannot write.
  using Write = std::function<void(const std::stop_token& stop)>;

  /// Throws std::system_error.
  Saver();
  /// Stops what is being written.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// The step that is being written, or was and `finish` has not returned since.
  std::optional<int64_t> step() const { return step_; }
  /// Nothing is being written.
  void begin(int64_t step, Write write);
  /// There is something to read when it is done.
  int descriptor() const { return done_; }
  /// Waits until it is; returns why it is not written, or "".
  std::string finish();

 private:
  int done_ = -1;  // an eventfd
  std::optional<int64_t> step_;
  std::stop_source stop_;
  std::future<void> writing_;
};

}  // namespace penstock
