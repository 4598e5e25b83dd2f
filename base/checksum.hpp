// A checksum against damage of memory and files, not against people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

/// CRC-32 (zlib's) of bytes that follow those whose checksum is `before`; 0 where none do.
uint32_t checksum(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace penstock
