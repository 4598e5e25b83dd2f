#include "backend/worker/snapshots.hpp"

#include <unistd.h>

#include <cerrno>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "backend/operators/dtype.hpp"

namespace penstock {

namespace {

[[noreturn]] void no_memory() {
  throw std::system_error(errno, std::generic_category(), "memory for a snapshot (--survive)");
}

void write_at(int slot, size_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(slot, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) no_memory();
    offset += static_cast<size_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

/// The bytes of tensors on their way to a place.
struct Copy {
  std::vector<at::Tensor> tensors;  // contiguous, on the CPU
  size_t bytes = 0;

  void add(const NamedTensors& named, std::vector<SafetensorsPlace>& places) {
    for (const auto& [name, tensor] : named) {
      tensors.push_back(tensor.detach().to(at::kCPU).contiguous());
      places.push_back({name, dtype_of(tensor.scalar_type()), tensor.sizes().vec()});
      bytes += tensor.nbytes();
    }
  }
  void write(int slot, size_t offset) const {
    for (const at::Tensor& tensor : tensors) {
      write_at(slot, offset, bytes_of(tensor));
      offset += tensor.nbytes();
    }
  }
};

}  // namespace

void Snapshots::begin(int64_t next_step, const NamedTensors& now, const NamedTensors& later) {
  finish();
  const size_t slot = slot_of(next_step);
  std::vector<SafetensorsPlace> places;
  Copy first, second;
  first.add(now, places);
  second.add(later, places);
  const std::string head = safetensors_head("snapshot", places).bytes;
  progress_.set_snapshot(slot, -1);
  const int descriptor = slots_[slot];
  const size_t rest = head.size() + first.bytes;
  if (ftruncate(descriptor, static_cast<off_t>(rest + second.bytes)) != 0) no_memory();
  write_at(descriptor, 0, std::as_bytes(std::span(head)));
  first.write(descriptor, head.size());
  copying_ = std::thread([=, this, second = std::move(second)] {
    try {
      while_copying(next_step);
      second.write(descriptor, rest);
      progress_.set_snapshot(slot, next_step);
    } catch (...) {
      problem_ = std::current_exception();
    }
  });
}

void Snapshots::finish() {
  if (copying_.joinable()) copying_.join();
  if (problem_) std::rethrow_exception(std::exchange(problem_, nullptr));
}

std::filesystem::path Snapshots::file(size_t slot) const {
  return "/proc/self/fd/" + std::to_string(slots_[slot]);
}

}  // namespace penstock
