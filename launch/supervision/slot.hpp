// Memory for a snapshot: it has no name, child processes inherit it, and it outlives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace penstock {

/// CRC-32 of bytes that follow those whose checksum is `before`.
uint32_t checksum(std::span<const std::byte> bytes, uint32_t before = 0);

class SnapshotSlot {
 public:
  /// Empty. Throws std::system_error.
  SnapshotSlot();
  SnapshotSlot(SnapshotSlot&& other) noexcept;
  SnapshotSlot(const SnapshotSlot&) = delete;
  SnapshotSlot& operator=(const SnapshotSlot&) = delete;
  ~SnapshotSlot();

  int descriptor() const { return descriptor_; }
  /// Its name in this process.
  std::filesystem::path file() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  /// Of all its bytes. Throws std::system_error.
  uint32_t checksum() const;

 private:
  int descriptor_ = -1;
};

}  // namespace penstock
