// The checksum of a snapshot: XXH64 of the XXH64s of its blocks, which several threads can take at
// once. Each is about as fast as memory. Damage within 8 bytes shows in any case.
#pragma once

#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

namespace penstock {

class Checksum {
 public:
  static constexpr size_t block_bytes = 1 << 22;

  Checksum() : block_(XXH64_createState(), XXH64_freeState) {
    if (!block_) throw std::bad_alloc();
    XXH64_reset(block_.get(), 0);
  }
  void add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min(bytes.size(), block_bytes - added_));
      XXH64_update(block_.get(), piece.data(), piece.size());
      added_ += piece.size();
      bytes = bytes.subspan(piece.size());
      if (added_ == block_bytes) end_block();
    }
  }
  /// Adds what another one has added; this one ends with a whole block.
  void append(const Checksum& later) {
    blocks_.insert(blocks_.end(), later.blocks_.begin(), later.blocks_.end());
    XXH64_copyState(block_.get(), later.block_.get());
    added_ = later.added_;
  }
  /// The checksum of all that was added.
  uint64_t value() const {
    std::vector<uint64_t> blocks = blocks_;
    if (added_ > 0) blocks.push_back(XXH64_digest(block_.get()));
    return XXH64(blocks.data(), blocks.size() * sizeof(uint64_t), 0);
  }

 private:
  void end_block() {
    blocks_.push_back(XXH64_digest(block_.get()));
    XXH64_reset(block_.get(), 0);
    added_ = 0;
  }

  std::vector<uint64_t> blocks_;
  std::unique_ptr<XXH64_state_t, decltype(&XXH64_freeState)> block_;
  size_t added_ = 0;  // to it
};

}  // namespace penstock
