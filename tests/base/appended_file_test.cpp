// A file that grows has whole records alone.
#include "base/appended_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <string>

#include "base/error.hpp"
#include "base/file.hpp"
#include "tests/base/support.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;

TEST(AppendedFileTest, HasEachRecordAtOnceAndKeepsWhatItIsTold) {
  const TemporaryFolder folder;
  const std::string path = folder.write("f", "one\ntwo\nthree\n");
  AppendedFile file(path, 8);
  EXPECT_EQ(read_file(path), "one\ntwo\n");
  file.append("3\n");
  EXPECT_EQ(read_file(path), "one\ntwo\n3\n");
  AppendedFile longer(path, 100);
  EXPECT_EQ(read_file(path), "one\ntwo\n3\n") << "nothing is made up";
  AppendedFile anew(path);
  EXPECT_EQ(read_file(path), "");
}

TEST(AppendedFileTest, HasNothingOfARecordThatDoesNotFit) {
  const TemporaryFolder folder;
  const std::string path = folder.write("f", "one\n");
  AppendedFile file(path, 4);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit low{10, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &low);
  const std::string refused = input_error([&] { file.append("longer than six\n"); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_THAT(refused, HasSubstr("cannot be written: File too large"));
  EXPECT_EQ(read_file(path), "one\n");
  file.append("two\n");
  EXPECT_EQ(read_file(path), "one\ntwo\n");
}

TEST(AppendedFileTest, SaysWhyItCannotBeMade) {
  const TemporaryFolder folder;
  EXPECT_THAT(input_error([&] { AppendedFile file(folder.path() / "no" / "f"); }),
              HasSubstr("is not a folder"));
}

}  // namespace
}  // namespace penstock
