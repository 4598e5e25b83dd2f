#include "launch/supervision/slot.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "launch/supervision/checksum.hpp"

namespace penstock {

namespace {

[[noreturn]] void no_memory() {
  throw std::system_error(errno, std::generic_category(), "memory for a snapshot (--survive)");
}

struct stat status_of(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) no_memory();
  return status;
}

}  // namespace

SnapshotSlot::SnapshotSlot() : descriptor_(memfd_create("penstock-snapshot", MFD_CLOEXEC)) {
  if (descriptor_ < 0) no_memory();
}

SnapshotSlot::SnapshotSlot(SnapshotSlot&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

SnapshotSlot::~SnapshotSlot() {
  if (descriptor_ >= 0) close(descriptor_);
}

uint64_t SnapshotSlot::checksum() const {
  std::vector<std::byte> piece(1 << 18);  // to map pages once takes longer than to copy them
  Checksum found;
  off_t offset = 0;
  for (ssize_t got; (got = pread(descriptor_, piece.data(), piece.size(), offset)) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw std::system_error(errno, std::generic_category(), "reading a snapshot");
    found.add(std::span(piece).first(static_cast<size_t>(got)));
    offset += got;
  }
  return found.value();
}

MappedSlot::MappedSlot(MappedSlot&& other) noexcept
    : descriptor_(other.descriptor_), mapped_(std::exchange(other.mapped_, {})) {}

MappedSlot::~MappedSlot() { unmap(); }

void MappedSlot::unmap() {
  if (!mapped_.empty()) munmap(mapped_.data(), mapped_.size());
  mapped_ = {};
}

int64_t MappedSlot::size() const { return status_of(descriptor_).st_size; }

void MappedSlot::reserve(int64_t bytes) {
  if (512 * status_of(descriptor_).st_blocks >= bytes) return;
  if (fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, 0, bytes) != 0) no_memory();
}

std::span<std::byte> MappedSlot::resize(int64_t bytes) {
  reserve(bytes);
  // To cut a file, even at its end, frees what is reserved behind.
  if (size() != bytes && ftruncate(descriptor_, bytes) != 0) no_memory();
  const auto wanted = static_cast<size_t>(bytes);
  if (mapped_.size() == wanted) return mapped_;
  unmap();
  void* memory =
      mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor_, 0);
  if (memory == MAP_FAILED) no_memory();
  return mapped_ = {static_cast<std::byte*>(memory), wanted};
}

void MappedSlot::clear() {
  if (ftruncate(descriptor_, 0) != 0) no_memory();
}

}  // namespace penstock
