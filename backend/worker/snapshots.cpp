#include "backend/worker/snapshots.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "backend/operators/dtype.hpp"
#include "launch/supervision/slot.hpp"

namespace penstock {

namespace {

[[noreturn]] void no_memory() {
  throw std::system_error(errno, std::generic_category(), "memory for a snapshot (--survive)");
}

/// Writes a slot from its beginning on.
class SlotWriter {
 public:
  explicit SlotWriter(int slot) : slot_(slot) {}

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min(bytes.size(), kPiece));
      const ssize_t written = pwrite(slot_, piece.data(), piece.size(), offset_);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) no_memory();
      const auto done = static_cast<size_t>(written);
      checksum_ = penstock::checksum(piece.first(done), checksum_);
      offset_ += written;
      bytes = bytes.subspan(done);
    }
  }
  /// The CRC-32 of all that was written.
  uint32_t checksum() const { return checksum_; }

 private:
  static constexpr size_t kPiece = 1 << 18;  // in the processor's cache when its checksum is taken
  int slot_;
  off_t offset_ = 0;
  uint32_t checksum_ = 0;
};

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
  void write(SlotWriter& writer) const {
    for (const at::Tensor& tensor : tensors) writer.write(bytes_of(tensor));
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
  const size_t bytes = head.size() + first.bytes + second.bytes;
  if (ftruncate(slots_[slot], static_cast<off_t>(bytes)) != 0) no_memory();
  SlotWriter writer(slots_[slot]);
  writer.write(std::as_bytes(std::span(head)));
  first.write(writer);
  copying_ = std::thread([=, this, second = std::move(second)]() mutable {
    try {
      while_copying(next_step);
      second.write(writer);
      progress_.set_snapshot(slot, next_step, writer.checksum());
    } catch (...) {
      problem_ = std::current_exception();
    }
  });
}

void Snapshots::finish() {
  if (copying_.joinable()) copying_.join();
  if (problem_) std::rethrow_exception(std::exchange(problem_, nullptr));
}

void Snapshots::forget() {
  finish();
  for (size_t slot = 0; slot < slots_.size(); ++slot) progress_.set_snapshot(slot, -1);
}

std::filesystem::path Snapshots::file(size_t slot) const {
  return "/proc/self/fd/" + std::to_string(slots_[slot]);
}

}  // namespace penstock
