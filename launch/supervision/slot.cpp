#include "launch/supervision/slot.hpp"

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

namespace penstock {

uint32_t checksum(std::span<const std::byte> bytes, uint32_t before) {
  return static_cast<uint32_t>(
      crc32_z(before, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

SnapshotSlot::SnapshotSlot() : descriptor_(memfd_create("penstock-snapshot", MFD_CLOEXEC)) {
  if (descriptor_ < 0)
    throw std::system_error(errno, std::generic_category(), "memory for a snapshot (--survive)");
}

SnapshotSlot::SnapshotSlot(SnapshotSlot&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

uint32_t SnapshotSlot::checksum() const {
  std::vector<std::byte> piece(1 << 18);  // mapping a page takes longer than copying it
  uint32_t found = 0;
  off_t offset = 0;
  for (ssize_t got; (got = pread(descriptor_, piece.data(), piece.size(), offset)) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw std::system_error(errno, std::generic_category(), "reading a snapshot");
    found = penstock::checksum(std::span(piece).first(static_cast<size_t>(got)), found);
    offset += got;
  }
  return found;
}

SnapshotSlot::~SnapshotSlot() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace penstock
