// Damage of a snapshot shows, whichever byte it hits.
#include "launch/supervision/slot.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "launch/supervision/checksum.hpp"

namespace penstock {
namespace {

TEST(SnapshotSlot, HasAnotherChecksumWhereAByteIsFlippedOrLost) {
  const SnapshotSlot slot;
  EXPECT_EQ(slot.checksum(), Checksum().value());
  std::string bytes;
  for (int i = 0; i < 600'000; ++i) bytes.push_back(static_cast<char>(i * 7919 >> 5));
  const auto size = static_cast<ssize_t>(bytes.size());
  ASSERT_EQ(pwrite(slot.descriptor(), bytes.data(), bytes.size(), 0), size);
  const uint64_t whole = slot.checksum();
  Checksum expected;
  expected.add(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(whole, expected.value());
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

TEST(Checksum, IsThatOfAllBytesInWhateverPiecesAndPartsTheyCame) {
  constexpr size_t kBlock = Checksum::block_bytes;
  std::vector<std::byte> bytes(3 * kBlock + 11);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7919 >> 5);
  const std::span<const std::byte> all(bytes);
  for (const size_t size : {size_t{5}, kBlock - 1, kBlock, 2 * kBlock, bytes.size()}) {
    const std::span<const std::byte> given = all.first(size);
    Checksum whole;
    whole.add(given);
    for (const size_t first : {size_t{0}, kBlock, 2 * kBlock}) {
      if (first > size) continue;
      Checksum parts, later;
      parts.add(given.first(first));
      for (std::span<const std::byte> rest = given.subspan(first); !rest.empty();) {
        const size_t piece = std::min<size_t>(rest.size(), 1'000'003);
        later.add(rest.first(piece));
        rest = rest.subspan(piece);
      }
      parts.append(later);
      EXPECT_EQ(parts.value(), whole.value()) << first << " of " << size;
    }
  }
}

TEST(MappedSlot, KeepsWhatIsReservedAndGivesAllBack) {
  const SnapshotSlot slot;
  const auto taken = [&] {
    struct stat status {};
    fstat(slot.descriptor(), &status);
    return 512 * status.st_blocks;
  };
  MappedSlot mapped(slot.descriptor());
  mapped.reserve(1 << 20);
  EXPECT_EQ(mapped.size(), 0);
  EXPECT_EQ(taken(), 1 << 20);
  for (const std::byte& byte : mapped.resize(10'000)) EXPECT_EQ(byte, std::byte{0});
  EXPECT_EQ(mapped.resize(10'000).size(), 10'000U);
  EXPECT_EQ(taken(), 1 << 20);
  mapped.resize(2 << 20)[1 << 20] = std::byte{7};
  EXPECT_EQ(taken(), 2 << 20);
  EXPECT_EQ(std::filesystem::file_size(slot.file()), 2U << 20);
  mapped.clear();
  EXPECT_EQ(taken(), 0);
  EXPECT_EQ(mapped.resize(2 << 20)[1 << 20], std::byte{0});
}

}  // namespace
}  // namespace penstock
