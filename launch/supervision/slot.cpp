#include "launch/supervision/slot.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace penstock {

SnapshotSlot::SnapshotSlot() : descriptor_(memfd_create("penstock-snapshot", MFD_CLOEXEC)) {
  if (descriptor_ < 0)
    throw std::system_error(errno, std::generic_category(), "memory for a snapshot (--survive)");
}

SnapshotSlot::SnapshotSlot(SnapshotSlot&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

SnapshotSlot::~SnapshotSlot() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace penstock
