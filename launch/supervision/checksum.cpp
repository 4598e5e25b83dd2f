#include "launch/supervision/checksum.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace penstock {

static_assert(std::endian::native == std::endian::little, "XXH64 reads little-endian words");

namespace {

constexpr uint64_t kPrime1 = 0x9e3779b185ebca87, kPrime2 = 0xc2b2ae3d27d4eb4f,
                   kPrime3 = 0x165667b19e3779f9, kPrime4 = 0x85ebca77c2b2ae63,
                   kPrime5 = 0x27d4eb2f165667c5;

template <typename Word>
uint64_t word_at(const std::byte* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

uint64_t round(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

/// Returns the bytes after the last whole stripe.
std::span<const std::byte> add_stripes(std::array<uint64_t, 4>& lanes,
                                       std::span<const std::byte> bytes) {
  auto [a, b, c, d] = lanes;
  const size_t whole = bytes.size() / 32 * 32;
  for (size_t at = 0; at < whole; at += 32) {
    const std::byte* stripe = bytes.data() + at;
    a = round(a, word_at<uint64_t>(stripe));
    b = round(b, word_at<uint64_t>(stripe + 8));
    c = round(c, word_at<uint64_t>(stripe + 16));
    d = round(d, word_at<uint64_t>(stripe + 24));
  }
  lanes = {a, b, c, d};
  return bytes.subspan(whole);
}

uint64_t joined(const std::array<uint64_t, 4>& lanes) {
  const auto [a, b, c, d] = lanes;
  uint64_t hash = std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
  for (const uint64_t lane : lanes) hash = (hash ^ round(0, lane)) * kPrime1 + kPrime4;
  return hash;
}

uint64_t add_rest(uint64_t hash, std::span<const std::byte> bytes) {
  for (; bytes.size() >= 8; bytes = bytes.subspan(8))
    hash = std::rotl(hash ^ round(0, word_at<uint64_t>(bytes.data())), 27) * kPrime1 + kPrime4;
  for (; bytes.size() >= 4; bytes = bytes.subspan(4))
    hash = std::rotl(hash ^ word_at<uint32_t>(bytes.data()) * kPrime1, 23) * kPrime2 + kPrime3;
  for (const std::byte byte : bytes)
    hash = std::rotl(hash ^ static_cast<uint64_t>(byte) * kPrime5, 11) * kPrime1;
  return hash;
}

}  // namespace

void Checksum::add(std::span<const std::byte> bytes) {
  total_bytes_ += bytes.size();
  if (rest_bytes_ > 0) {
    const auto filling = bytes.first(std::min(bytes.size(), kStripe - rest_bytes_));
    std::ranges::copy(filling, rest_.begin() + static_cast<ptrdiff_t>(rest_bytes_));
    rest_bytes_ += filling.size();
    bytes = bytes.subspan(filling.size());
    if (rest_bytes_ < kStripe) return;
    add_stripes(lanes_, rest_);
  }
  bytes = add_stripes(lanes_, bytes);
  std::ranges::copy(bytes, rest_.begin());
  rest_bytes_ = bytes.size();
}

uint64_t Checksum::value() const {
  uint64_t hash = (total_bytes_ < kStripe ? kPrime5 : joined(lanes_)) + total_bytes_;
  hash = add_rest(hash, std::span(rest_).first(rest_bytes_));
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  return hash ^ hash >> 32;
}

}  // namespace penstock
