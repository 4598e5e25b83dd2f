// XXH64, the 64-bit hash of xxHash (github.com/Cyan4973/xxHash): about as fast as memory, so that
// a snapshot's costs less than its copy. Damage within 8 bytes shows in any case.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

class Checksum {
 public:
  void add(std::span<const std::byte> bytes);
  /// Of all that was added, with seed 0.
  uint64_t value() const;

 private:
  static constexpr size_t kStripe = 32;
  std::array<uint64_t, 4> lanes_{0x60ea27eeadc0b5d6, 0xc2b2ae3d27d4eb4f, 0, 0x61c8864e7a143579};
  std::array<std::byte, kStripe> rest_{};  // that fill no stripe yet
  size_t rest_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace penstock
