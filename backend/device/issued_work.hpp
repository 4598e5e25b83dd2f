// Work of another thread on a GPU's tensors, in the order of the work that made them.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <optional>

namespace penstock {

/// All that this thread has issued to a device until now; nothing to wait for on the CPU.
class IssuedWork {
 public:
  explicit IssuedWork(c10::Device device);

  /// While the result lives this thread issues to a stream of its own, which runs behind that work.
  c10::OptionalStreamGuard behind() const;

 private:
  c10::Device device_;
  std::optional<c10::Event> issued_;
};

}  // namespace penstock
