#include "backend/device/memory.hpp"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <malloc.h>

#include <atomic>
#include <climits>
#include <cstring>

namespace penstock::memory {
namespace {

std::atomic<int64_t> held = 0;
std::atomic<int64_t> peak = 0;

/// The size precedes the bytes in a header as long as LibTorch's alignment, so that the data
/// pointer is its own context (which `raw_allocate` requires) and no table is locked.
constexpr size_t kHeaderBytes = 64;

void count(int64_t bytes) {
  const int64_t now = held.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t highest = peak.load(std::memory_order_relaxed);
  while (now > highest && !peak.compare_exchange_weak(highest, now, std::memory_order_relaxed)) {
  }
}

void release(void* data) {
  if (data == nullptr) return;
  std::byte* header = static_cast<std::byte*>(data) - kHeaderBytes;
  int64_t bytes = 0;
  std::memcpy(&bytes, header, sizeof bytes);
  held.fetch_sub(bytes, std::memory_order_relaxed);
  c10::free_cpu(header);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::DeviceType::CPU};
    auto* header = static_cast<std::byte*>(c10::alloc_cpu(bytes + kHeaderBytes));
    const auto counted = static_cast<int64_t>(bytes);
    std::memcpy(header, &counted, sizeof counted);
    count(counted);
    void* data = header + kHeaderBytes;
    return {data, data, &release, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

void count_cpu() {
  // Every microbatch asks for the same blocks. By default glibc returns the top of the heap to the
  // system each time, and the page faults when it grows again made I 35 % slower (transformer, 2
  // cores).
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // glibc's maximum
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  static auto* const allocator = new CountingAllocator;  // LibTorch uses it to the very end
  c10::SetCPUAllocator(allocator, /*priority=*/1);
}

int64_t held_bytes() { return held.load(std::memory_order_relaxed); }
int64_t peak_bytes() { return peak.load(std::memory_order_relaxed); }
void reset_peak() { peak.store(held_bytes(), std::memory_order_relaxed); }

}  // namespace penstock::memory
