// Files at the edge: fingerprints, writes that are seen whole or not at all, element types.
#include "base/file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/dtype.hpp"
#include "base/error.hpp"

namespace penstock {
namespace {

class File : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("penstock-file-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  std::filesystem::path folder_;
};

TEST_F(File, Sha256OfTheStandardsExamples) {  // FIPS 180-4's examples, from NIST
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_F(File, Sha256OfAFileIsThatOfItsContent) {
  const std::string content(3000000, 'x');  // several pieces
  write_file(folder_ / "f", content);
  EXPECT_EQ(sha256_of_file(folder_ / "f"), sha256(content));
}

TEST_F(File, WritesWholeAndLeavesNothingElse) {
  write_file(folder_ / "f", "first");
  write_file(folder_ / "f", std::string("second\0end", 10));
  EXPECT_EQ(read_file(folder_ / "f"), std::string("second\0end", 10));
  EXPECT_EQ(files(), 1u);
}

TEST_F(File, AFailedWriteLeavesTheOldFileAndNoOther) {
  write_file(folder_ / "f", "old");
  std::filesystem::create_directory(folder_ / "taken");
  EXPECT_THROW(write_file(folder_ / "missing" / "f", "new"), InputError);
  EXPECT_THROW(write_file(folder_ / "taken", "new"), InputError);
  EXPECT_EQ(read_file(folder_ / "f"), "old");
  EXPECT_EQ(files(), 2u);
}

TEST_F(File, WritingToADeviceDoesNotReplaceIt) {
  write_file("/dev/null", "gone");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(File, ReadingWhatIsNotThereIsAnInputError) {
  EXPECT_THROW(read_file(folder_ / "missing"), InputError);
  EXPECT_THROW(read_file(folder_), InputError);
  EXPECT_THROW(sha256_of_file(folder_ / "missing"), InputError);
}

TEST(DType, SizesNamesAndSafetensors) {
  EXPECT_EQ(size_bytes(DType::bfloat16), 2);
  EXPECT_EQ(size_bytes(DType::complex128), 16);
  EXPECT_EQ(size_bytes(static_cast<DType>(99)), 0);
  EXPECT_TRUE(is_floating(DType::float8_e5m2));
  EXPECT_FALSE(is_floating(DType::int64));
  EXPECT_EQ(name(DType::boolean), "bool");
  for (const DType dtype : {DType::uint8, DType::int64, DType::float16, DType::float32,
                            DType::float64, DType::bfloat16, DType::boolean})
    EXPECT_EQ(from_safetensors_name(safetensors_name(dtype)), dtype);
  EXPECT_EQ(from_safetensors_name(""), DType::unknown);
  EXPECT_EQ(from_safetensors_name("F3"), DType::unknown);
}

}  // namespace
}  // namespace penstock
