// Memory for a snapshot: it has no name, child processes inherit it, and it outlives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

namespace penstock {

/// In the process that owns the memory, and reads it.
class SnapshotSlot {
 public:
  /// Empty. Throws std::system_error.
  SnapshotSlot();
  SnapshotSlot(SnapshotSlot&& other) noexcept;
  SnapshotSlot(const SnapshotSlot&) = delete;
  SnapshotSlot& operator=(SnapshotSlot&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  SnapshotSlot& operator=(const SnapshotSlot&) = delete;
  ~SnapshotSlot();

  int descriptor() const { return descriptor_; }
  /// Its name in this process.
  std::filesystem::path file() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  /// The checksum of all its bytes (checksum.hpp). Throws std::system_error.
  uint64_t checksum() const;

 private:
  int descriptor_ = -1;
};

/// A slot in the process that writes it. Members throw std::system_error where there is no memory.
class MappedSlot {
 public:
  explicit MappedSlot(int descriptor) : descriptor_(descriptor) {}
  MappedSlot(MappedSlot&& other) noexcept;
  MappedSlot(const MappedSlot&) = delete;
  MappedSlot& operator=(const MappedSlot&) = delete;
  ~MappedSlot();

  int descriptor() const { return descriptor_; }
  int64_t size() const;
  /// Takes the memory for so many bytes; its size remains.
  void reserve(int64_t bytes);
  /// Its bytes, of that number from now on, all in memory. Valid until the next call.
  std::span<std::byte> resize(int64_t bytes);
  /// Gives its memory back.
  void clear();

 private:
  void unmap();
  int descriptor_;
  std::span<std::byte> mapped_;
};

}  // namespace penstock
