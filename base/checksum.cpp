#include "base/checksum.hpp"

#include <zlib.h>

namespace penstock {

uint32_t checksum(std::span<const std::byte> bytes, uint32_t before) {
  return static_cast<uint32_t>(
      crc32_z(before, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

}  // namespace penstock
