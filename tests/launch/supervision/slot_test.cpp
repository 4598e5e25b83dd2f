// Damage of a snapshot shows, whichever byte it hits.
#include "launch/supervision/slot.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace penstock {
namespace {

TEST(SnapshotSlot, HasAnotherChecksumWhereAByteIsFlippedOrLost) {
  const SnapshotSlot slot;
  EXPECT_EQ(slot.checksum(), 0U);
  std::string bytes;
  for (int i = 0; i < 600'000; ++i) bytes.push_back(static_cast<char>(i * 7919 >> 5));
  const auto size = static_cast<ssize_t>(bytes.size());
  ASSERT_EQ(pwrite(slot.descriptor(), bytes.data(), bytes.size(), 0), size);
  const uint32_t whole = slot.checksum();
  EXPECT_EQ(whole, checksum(std::as_bytes(std::span(bytes))));
  for (const off_t at : {off_t{0}, off_t{300'000}, off_t{size - 1}}) {
    const char flipped = static_cast<char>(bytes[static_cast<size_t>(at)] ^ 1);
    ASSERT_EQ(pwrite(slot.descriptor(), &flipped, 1, at), 1);
    EXPECT_NE(slot.checksum(), whole) << at;
    ASSERT_EQ(pwrite(slot.descriptor(), &bytes[static_cast<size_t>(at)], 1, at), 1);
  }
  EXPECT_EQ(slot.checksum(), whole);
  ASSERT_EQ(ftruncate(slot.descriptor(), size - 1), 0);
  EXPECT_NE(slot.checksum(), whole);
}

TEST(Checksum, IsTheCrcOfItsCheckValueAndGoesOn) {
  const std::string_view digits = "123456789";
  const auto bytes = std::as_bytes(std::span(digits));
  EXPECT_EQ(checksum(bytes), 0xCBF43926U);  // CRC-32/ISO-HDLC
  EXPECT_EQ(checksum(bytes.subspan(4), checksum(bytes.first(4))), 0xCBF43926U);
}

}  // namespace
}  // namespace penstock
