// Memory that processes share by an inherited descriptor. It ends with the last process that has
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

class SharedMemory {
 public:
  /// Maps `bytes` of it, all in memory at once. Throws std::system_error.
  SharedMemory(int descriptor, int64_t bytes);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

/// Gives the memory of the descriptor that size. Throws std::system_error.
void resize_memory(int descriptor, int64_t bytes);

}  // namespace penstock
