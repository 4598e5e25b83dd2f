// The checksum is XXH64, in whichever pieces the bytes come.
#include "launch/supervision/checksum.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace penstock {
namespace {

uint64_t checksum_of(std::string_view text, size_t piece = 1 << 20) {
  Checksum checksum;
  for (auto bytes = std::as_bytes(std::span(text)); !bytes.empty();) {
    const auto first = bytes.first(std::min(bytes.size(), piece));
    checksum.add(first);
    bytes = bytes.subspan(first.size());
  }
  return checksum.value();
}

TEST(Checksum, IsXXH64) {  // as python-xxhash has them
  EXPECT_EQ(checksum_of(""), 0xef46db3751d8e999U);
  EXPECT_EQ(checksum_of("a"), 0xd24ec4f1a98c6e5bU);
  EXPECT_EQ(checksum_of("abc"), 0x44bc2cf5ad770999U);
  EXPECT_EQ(checksum_of("Nobody inspects the spammish repetition"), 0xfbcea83c8a378bf1U);
}

TEST(Checksum, IsTheSameInAnyPieces) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text.push_back(static_cast<char>(i * 7919 >> 5));
  for (size_t piece = 1; piece < 200; ++piece)
    EXPECT_EQ(checksum_of(text, piece), checksum_of(text)) << piece;
}

TEST(Checksum, TellsEveryBit) {
  std::string text(97, '\0');
  const uint64_t before = checksum_of(text);
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    text[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_NE(checksum_of(text), before) << bit;
    text[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
}

}  // namespace
}  // namespace penstock
