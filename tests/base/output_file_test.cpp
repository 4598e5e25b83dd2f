// Outputs are whole or not there, go where links point, and leave nothing behind.
#include "base/output_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/safetensors.hpp"
#include "tests/base/support.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OutputFileTest : public ::testing::Test {
 protected:
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_.path()), {}));
  }
  fs::path at(const char* name) const { return folder_.path() / name; }
  TemporaryFolder folder_;
};

TEST_F(OutputFileTest, IsThereOnlyOnceItIsCommitted) {
  write_file(at("f"), "old");
  {
    OutputFile file(at("f"));
    file.write("first, ");
    file.write("second");
    EXPECT_EQ(read_file(at("f")), "old");
    file.commit();
    EXPECT_EQ(read_file(at("f")), "first, second");
  }
  { OutputFile(at("f")).write("given up"); }
  EXPECT_EQ(read_file(at("f")), "first, second");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFileTest, ANameMayBeAsLongAsTheSystemAllows) {
  const std::string name(255, 'n');
  check_writable(at(name.c_str()));
  write_file(at(name.c_str()), "text");
  EXPECT_EQ(read_file(at(name.c_str())), "text");
  EXPECT_THAT(input_error([&] { write_file(at((name + "n").c_str()), "text"); }),
              HasSubstr("File name too long"));
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFileTest, GoesThroughLinksToTheirEnd) {
  fs::create_directory(at("sub"));
  fs::create_symlink("sub/second", at("first"));
  fs::create_symlink("third", at("sub/second"));
  write_file(at("first"), "new");  // a file that is not there yet
  EXPECT_EQ(read_file(at("sub/third")), "new");
  write_file(at("first"), "newer");
  EXPECT_EQ(read_file(at("sub/third")), "newer");
  EXPECT_TRUE(fs::is_symlink(at("first")) && fs::is_symlink(at("sub/second")));
  EXPECT_EQ(written_path(at("first")), at("sub/third"));
}

TEST_F(OutputFileTest, LinksInACircleAreRefused) {
  fs::create_symlink("a", at("b"));
  fs::create_symlink("b", at("a"));
  EXPECT_THAT(input_error([&] { write_file(at("a"), "x"); }), HasSubstr("symbolic links"));
  EXPECT_EQ(files(), 2u);
}

TEST_F(OutputFileTest, AFullDeviceIsToldAsTheReason) {
  fs::create_symlink("/dev/full", at("full"));
  const std::string reason = "cannot be written: No space left on device";
  EXPECT_THAT(input_error([&] { write_file(at("full"), "x"); }), HasSubstr(reason));
  const std::vector<std::byte> bytes(8);
  const std::vector<SafetensorsTensor> tensors{{"x", DType::float32, {2}, bytes}};
  EXPECT_THAT(input_error([&] { write_safetensors(at("full"), tensors); }), HasSubstr(reason));
  EXPECT_TRUE(fs::is_character_file(at("full")));
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFileTest, TheCheckRefusesWhatWritingWouldAndLeavesNothing) {
  write_file(at("file"), "old");
  fs::create_directory(at("sub"));
  fs::create_symlink("nowhere/x", at("link"));
  for (const fs::path& path : {at("none/f"), at("file/f"), at("sub"), at("link")}) {
    const std::string message = input_error([&] { check_writable(path); });
    EXPECT_THAT(message, HasSubstr(path.string()));
    EXPECT_EQ(message, input_error([&] { write_file(path, "x"); }));
  }
  for (const fs::path& path : {at("file"), at("new"), at("sub/new"), fs::path("/dev/null")}) {
    check_writable(path);
  }
  EXPECT_EQ(files(), 3u);
  EXPECT_EQ(read_file(at("file")), "old");
  EXPECT_TRUE(fs::is_empty(at("sub")));
}

TEST_F(OutputFileTest, APipeIsCheckedWithoutAReader) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  check_writable(at("pipe"));
  EXPECT_TRUE(fs::is_fifo(at("pipe")));
}

TEST_F(OutputFileTest, AFolderNeedNotExistWhereItCanBeMade) {
  write_file(at("file"), "old");
  fs::create_symlink("nowhere", at("link"));
  check_writable_folder(folder_.path());
  check_writable_folder(at("new"));
  check_writable_folder(at("new/"));
  for (const fs::path& path : {at("file"), at("link"), at("none/new"), at("file/new")}) {
    EXPECT_THAT(input_error([&] { check_writable_folder(path); }), HasSubstr("is not a folder"));
  }
  EXPECT_EQ(files(), 2u);
}

TEST_F(OutputFileTest, AFolderIsMadeWithThoseAboveIt) {
  make_folder(at("a/b/c"));
  make_folder(at("a/b/c"));
  EXPECT_TRUE(fs::is_directory(at("a/b/c")));
  write_file(at("file"), "old");
  EXPECT_THAT(input_error([&] { make_folder(at("file/sub")); }),
              HasSubstr("file: cannot be written: File exists"));
  EXPECT_THAT(input_error([&] { make_folder("/proc/sub"); }), HasSubstr("cannot be written"));
}

TEST_F(OutputFileTest, AFolderTakesThePlaceOfAnother) {
  for (const char* content : {"first", "second"}) {
    make_folder(at("unfinished"));
    write_file(at("unfinished/f"), content);
    put_in_place(at("unfinished"), at("folder"));
    EXPECT_EQ(read_file(at("folder/f")), content);
    EXPECT_EQ(files(), 1u);
  }
  const std::string message = input_error([&] { put_in_place(at("none"), at("folder")); });
  EXPECT_THAT(message, HasSubstr("No such file or directory"));
  EXPECT_EQ(read_file(at("folder/f")), "second");
}

}  // namespace
}  // namespace penstock
