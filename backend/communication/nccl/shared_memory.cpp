#include "backend/communication/nccl/shared_memory.hpp"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <limits>

#include "base/error.hpp"
#include "base/quantity.hpp"

namespace penstock {

namespace {

/// The need of each end, as NCCL 2.28.9 has it.
constexpr int64_t kBytesOfEnd = 34'210'176;

}  // namespace

void check_shared_memory(int ends, int64_t free_bytes) {
  const int64_t needed = ends * kBytesOfEnd;
  if (needed <= free_bytes) return;
  throw InputError("/dev/shm",
                   fmt::format("has {} free, and NCCL needs {} of it for several ranks on a GPU",
                               format_bytes(double(free_bytes)), format_bytes(double(needed))),
                   "Make it larger (docker run --shm-size 1g), or use fewer ranks.");
}

int64_t free_shared_memory() {
  struct statvfs file_system {};
  if (statvfs("/dev/shm", &file_system) != 0) return std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(file_system.f_bavail) * static_cast<int64_t>(file_system.f_frsize);
}

}  // namespace penstock
