#include "backend/worker/snapshots.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "backend/operators/dtype.hpp"
#include "launch/supervision/rotation.hpp"
#include "launch/supervision/slot.hpp"

namespace penstock {

namespace {

[[noreturn]] void no_memory() {
  throw std::system_error(errno, std::generic_category(), "memory for a snapshot (--survive)");
}

off_t size_of(int slot) {
  struct stat status {};
  if (fstat(slot, &status) != 0) no_memory();
  return status.st_size;
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
  /// Nothing of an older, longer snapshot is left behind it. What was reserved stays else: to cut a
  /// file, even at its end, frees all that lies behind.
  void end() const {
    if (size_of(slot_) > offset_ && ftruncate(slot_, offset_) != 0) no_memory();
  }
  /// Of all that was written.
  uint32_t checksum() const { return checksum_; }

 private:
  static constexpr size_t kPiece = 1 << 18;  // in the processor's cache when its checksum is taken
  int slot_;
  off_t offset_ = 0;
  uint32_t checksum_ = 0;
};

/// Tensors on their way to a place.
struct Copy {
  std::vector<at::Tensor> tensors;

  void add(const NamedTensors& named, std::vector<SafetensorsPlace>& places) {
    for (const auto& [name, tensor] : named) {
      tensors.push_back(tensor.detach());
      places.push_back({name, dtype_of(tensor.scalar_type()), tensor.sizes().vec()});
    }
  }
  void write(SlotWriter& writer) const {
    for (const at::Tensor& tensor : tensors) writer.write(bytes_of(tensor.cpu().contiguous()));
  }
};

}  // namespace

void Snapshots::begin(int64_t next_step, const NamedTensors& now, const NamedTensors& later,
                      bool unsaved) {
  finish();
  const size_t slot = wait_for_slot();
  std::vector<SafetensorsPlace> places;
  Copy first, second;
  first.add(now, places);
  second.add(later, places);
  const std::string head = safetensors_head("snapshot", places).bytes;
  progress_.set_snapshot(slot, -1);
  SlotWriter writer(slots_[slot]);
  writer.write(std::as_bytes(std::span(head)));
  first.write(writer);
  copying_ = std::thread([=, this, second = std::move(second)]() mutable {
    try {
      while_copying(next_step);
      free_idle(slot);
      second.write(writer);
      writer.end();
      progress_.set_snapshot(slot, next_step, writer.checksum(), unsaved);
      on_copied(next_step);
    } catch (...) {
      problem_ = std::current_exception();
    }
  });
}

size_t Snapshots::wait_for_slot() const {
  for (;;) {
    if (const auto slot = slot_for_next(progress_.slots())) return *slot;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the writing takes far longer
  }
}

void Snapshots::free_idle(size_t next) {
  for (const size_t slot : idle_slots(progress_.slots(), next)) {
    progress_.set_snapshot(slot, -1);
    if (ftruncate(slots_[slot], 0) != 0) no_memory();
  }
}

void Snapshots::finish() {
  if (copying_.joinable()) copying_.join();
  if (problem_) std::rethrow_exception(std::exchange(problem_, nullptr));
}

void Snapshots::forget() {
  finish();
  for (size_t slot = 0; slot < slots_.size(); ++slot) progress_.set_snapshot(slot, -1);
}

void Snapshots::reserve(int64_t more_bytes) {
  const RankSlots slots = progress_.slots();
  const size_t taken = slot_with(slots.steps, std::ranges::max(slots.steps)).value();
  const off_t bytes = size_of(slots_[taken]) + more_bytes;
  for (const size_t slot : {taken, slot_for_next(slots).value()}) {
    if (fallocate(slots_[slot], FALLOC_FL_KEEP_SIZE, 0, bytes) != 0) no_memory();
  }
}

std::filesystem::path Snapshots::file(int64_t next_step) const {
  const size_t slot = slot_with(progress_.slots().steps, next_step).value();
  return "/proc/self/fd/" + std::to_string(slots_[slot]);
}

}  // namespace penstock
