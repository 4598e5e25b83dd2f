#include "launch/progress.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace penstock {

static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared between processes");

SharedProgress::SharedProgress() : descriptor_(memfd_create("penstock-progress", MFD_CLOEXEC)) {
  if (descriptor_ < 0 || ftruncate(descriptor_, sizeof(*shared_)) != 0) {
    throw std::system_error(errno, std::generic_category(), "shared memory for progress");
  }
  map();
  set(Place{});
  set_copied(-1);
  for (size_t slot = 0; slot < kSlots; ++slot) set_snapshot(slot, -1);
}

SharedProgress::SharedProgress(int descriptor) : descriptor_(descriptor) { map(); }

SharedProgress::SharedProgress(SharedProgress&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      shared_(std::exchange(other.shared_, nullptr)) {}

SharedProgress::~SharedProgress() {
  if (shared_ != nullptr) munmap(shared_, sizeof(*shared_));
  if (descriptor_ >= 0) close(descriptor_);
}

void SharedProgress::map() {
  void* memory =
      mmap(nullptr, sizeof(*shared_), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED) {
    throw std::system_error(errno, std::generic_category(), "shared memory for progress");
  }
  shared_ = static_cast<Shared*>(memory);
}

// 40 bits of step + 1, 24 bits of position + 1.
void SharedProgress::set(Place place) {
  shared_->place.store(static_cast<uint64_t>(place.step + 1) << 24 |
                           (static_cast<uint64_t>(place.position + 1) & 0xffffff),
                       std::memory_order_relaxed);
}

SharedProgress::Place SharedProgress::get() const {
  const uint64_t word = shared_->place.load(std::memory_order_relaxed);
  return {static_cast<int64_t>(word >> 24) - 1, static_cast<int>(word & 0xffffff) - 1};
}

// 32 bits of the kind, 32 of the peer + 1.
void SharedProgress::set(Activity activity) {
  shared_->activity.store(
      static_cast<uint64_t>(activity.kind) << 32 | static_cast<uint32_t>(activity.peer + 1),
      std::memory_order_relaxed);
}

Activity SharedProgress::activity() const {
  const uint64_t word = shared_->activity.load(std::memory_order_relaxed);
  return {static_cast<Activity::Kind>(word >> 32), static_cast<int>(word & 0xffffffff) - 1};
}

void SharedProgress::set_snapshot(size_t slot, int64_t next_step, uint64_t checksum, bool unsaved) {
  shared_->slots[slot].checksum.store(checksum, std::memory_order_relaxed);
  shared_->slots[slot].unsaved.store(unsaved ? 1 : 0, std::memory_order_relaxed);
  shared_->slots[slot].next_step.store(next_step, std::memory_order_release);
}

void SharedProgress::saved(size_t slot) {
  shared_->slots[slot].unsaved.store(0, std::memory_order_release);
}

void SharedProgress::forget_snapshots_after(int64_t next_step) {
  const RankSlots found = slots();
  for (size_t slot = 0; slot < kSlots; ++slot) {
    if (found.steps[slot] < 0 || found.steps[slot] > next_step) set_snapshot(slot, -1);
  }
}

void SharedProgress::set_copied(int64_t next_step) {
  shared_->copied.store(next_step, std::memory_order_release);
}

int64_t SharedProgress::copied() const { return shared_->copied.load(std::memory_order_acquire); }

RankSlots SharedProgress::slots() const {
  RankSlots found;
  for (size_t slot = 0; slot < kSlots; ++slot) {
    found.steps[slot] = shared_->slots[slot].next_step.load(std::memory_order_acquire);
    found.unsaved[slot] = shared_->slots[slot].unsaved.load(std::memory_order_acquire) != 0;
  }
  return found;
}

uint64_t SharedProgress::checksum(size_t slot) const {
  return shared_->slots[slot].checksum.load(std::memory_order_relaxed);
}

}  // namespace penstock
