#include "launch/shared_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace penstock {

SharedMemory::SharedMemory(int descriptor, int64_t bytes) {
  if (bytes == 0) return;
  const auto size = static_cast<size_t>(bytes);
  void* memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  if (memory == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "memory shared with the script");
  bytes_ = {static_cast<std::byte*>(memory), size};
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

void resize_memory(int descriptor, int64_t bytes) {
  if (ftruncate(descriptor, bytes) != 0)
    throw std::system_error(errno, std::generic_category(), "memory shared with the script");
}

}  // namespace penstock
