#include "backend/worker/snapshots.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/device/host_pieces.hpp"
#include "backend/operators/dtype.hpp"
#include "launch/supervision/checksum.hpp"
#include "launch/supervision/rotation.hpp"

namespace penstock {

namespace {

int64_t bytes_of_all(const NamedTensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

std::string head_of(const NamedTensors& tensors) {
  std::vector<SafetensorsPlace> places;
  for (const auto& [name, tensor] : tensors)
    places.push_back({name, dtype_of(tensor.scalar_type()), tensor.sizes().vec()});
  return safetensors_head("snapshot", places).bytes;
}

/// The GPU that some of them are on, or the CPU.
at::Device device_of(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors)
    if (!tensor.is_cpu()) return tensor.device();
  return at::kCPU;
}

/// Copies bytes into a part of a slot one after the other, as there is time for it.
class SlotWriter {
 public:
  SlotWriter(std::span<std::byte> part, const SpareTime::Wanted& time) : rest_(part), time_(time) {}

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min(bytes.size(), kPiece));
      time_.await();
      std::memcpy(rest_.data(), piece.data(), piece.size());
      checksum_.add(piece);
      rest_ = rest_.subspan(piece.size());
      bytes = bytes.subspan(piece.size());
    }
  }
  /// Gives away the checksum of all that was written.
  Checksum take_checksum() { return std::move(checksum_); }

 private:
  static constexpr size_t kPiece = 1 << 18;  // in the processor's cache when its checksum is taken
  std::span<std::byte> rest_;
  const SpareTime::Wanted& time_;
  Checksum checksum_;
};

/// Bytes in which tensors come from a GPU: a slot is written in several such pieces.
constexpr size_t kArriving = 1 << 22;

/// So many bytes in at most so many parts of whole blocks; the last one has what is left.
std::vector<ByteRange> parts_of(size_t bytes, int most) {
  const size_t blocks = (bytes + Checksum::block_bytes - 1) / Checksum::block_bytes;
  const size_t count = std::clamp<size_t>(blocks, 1, static_cast<size_t>(most));
  std::vector<ByteRange> parts;
  for (size_t i = 0; i < count; ++i)
    parts.push_back({i * blocks / count * Checksum::block_bytes,
                     std::min(bytes, (i + 1) * blocks / count * Checksum::block_bytes)});
  return parts;
}

}  // namespace

void Snapshots::begin(int64_t next_step, const NamedTensors& now, const NamedTensors& later,
                      bool unsaved) {
  finish();
  const size_t slot = wait_for_slot();
  progress_.set_snapshot(slot, -1);
  NamedTensors tensors;
  for (const auto& [name, tensor] : now) tensors.emplace_back(name, tensor.detach().clone());
  for (const auto& [name, tensor] : later) tensors.emplace_back(name, tensor.detach());
  const at::Device device = device_of(tensors);
  const int threads = threads_.value_or(device.is_cpu() ? 1 : std::min(4, at::get_num_threads()));
  IssuedWork issued(device);
  copying_ = std::thread([=, this, issued = std::move(issued), tensors = std::move(tensors),
                          time = SpareTime::Wanted(spare_)] {
    try {
      free_idle(slot);
      const uint64_t checksum = copy(tensors, slot, next_step, threads, issued, time);
      progress_.set_snapshot(slot, next_step, checksum, unsaved);
      on_complete(next_step);
    } catch (...) {
      problem_ = std::current_exception();
    }
  });
}

/// Returns the checksum.
uint64_t Snapshots::copy(const NamedTensors& tensors, size_t slot, int64_t next_step, int threads,
                         const IssuedWork& issued, const SpareTime::Wanted& time) {
  std::string head = head_of(tensors);
  std::vector<at::Tensor> values{
      at::from_blob(head.data(), {static_cast<int64_t>(head.size())}, at::kByte)};
  for (const auto& [name, tensor] : tensors) values.push_back(tensor);
  const std::span<std::byte> memory =
      slots_[slot].resize(static_cast<int64_t>(head.size()) + bytes_of_all(tensors));
  const auto copy_part = [&](const ByteRange& part) {
    const c10::OptionalStreamGuard stream = issued.behind();
    SlotWriter writer(memory.subspan(part.begin, part.end - part.begin), time);
    bool told = part.begin > 0;
    read_in_pieces(values, part, kArriving, [&](std::span<const std::byte> piece) {
      writer.write(piece);
      if (!std::exchange(told, true)) while_copying(next_step);
    });
    return writer.take_checksum();
  };
  std::vector<std::future<Checksum>> copied;
  for (const ByteRange& part : parts_of(memory.size(), threads))  // this thread takes the first
    copied.push_back(
        std::async(copied.empty() ? std::launch::deferred : std::launch::async, copy_part, part));
  Checksum checksum;
  for (std::future<Checksum>& part : copied) checksum.append(part.get());
  return checksum.value();
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
    slots_[slot].clear();
  }
}

void Snapshots::join() {
  const SpareTime::Lent lent(spare_);
  if (copying_.joinable()) copying_.join();
}

void Snapshots::finish() {
  join();
  if (problem_) std::rethrow_exception(std::exchange(problem_, nullptr));
}

void Snapshots::forget() {
  finish();
  for (size_t slot = 0; slot < slots_.size(); ++slot) progress_.set_snapshot(slot, -1);
}

void Snapshots::reserve(int64_t more_bytes) {
  const RankSlots slots = progress_.slots();
  const size_t taken = slot_with(slots.steps, std::ranges::max(slots.steps)).value();
  const int64_t bytes = slots_[taken].size() + more_bytes;
  for (const size_t slot : {taken, slot_for_next(slots).value()}) slots_[slot].reserve(bytes);
}

std::filesystem::path Snapshots::file(int64_t next_step) const {
  const size_t slot = slot_with(progress_.slots().steps, next_step).value();
  return "/proc/self/fd/" + std::to_string(slots_[slot].descriptor());
}

}  // namespace penstock
