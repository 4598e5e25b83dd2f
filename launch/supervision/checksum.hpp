// The checksum of a snapshot, XXH64: about as fast as memory, so that it costs less than the copy.
// Damage within 8 bytes shows in any case.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

namespace penstock {

class Checksum {
 public:
  Checksum() : state_(XXH64_createState(), XXH64_freeState) {
    if (!state_) throw std::bad_alloc();
    XXH64_reset(state_.get(), 0);
  }
  void add(std::span<const std::byte> bytes) {
    XXH64_update(state_.get(), bytes.data(), bytes.size());
  }
  /// The checksum of all that was added.
  uint64_t value() const { return XXH64_digest(state_.get()); }

 private:
  std::unique_ptr<XXH64_state_t, decltype(&XXH64_freeState)> state_;
};

}  // namespace penstock
