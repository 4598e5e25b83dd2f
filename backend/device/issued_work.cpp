#include "backend/device/issued_work.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace penstock {

using c10::impl::VirtualGuardImpl;

IssuedWork::IssuedWork(c10::Device device) : device_(device) {
  if (device.is_cpu()) return;
  issued_.emplace(device.type());
  issued_->record(VirtualGuardImpl(device.type()).getStream(device));
}

c10::OptionalStreamGuard IssuedWork::behind() const {
  if (!issued_) return c10::OptionalStreamGuard();
  const c10::Stream own = VirtualGuardImpl(device_.type()).getStreamFromGlobalPool(device_);
  issued_->block(own);
  return c10::OptionalStreamGuard(own);
}

}  // namespace penstock
