// Memory that control groups leave.
#include "launch/own_memory.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/base/support.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(OwnMemory, IsWhatTheTightestGroupLeaves) {
  const TemporaryFolder folder;
  const fs::path groups = folder.path();
  EXPECT_EQ(left_by_groups(groups, "a/b", 1000), 1000);  // no groups
  write(groups / "a/b/memory.max", "max\n");
  write(groups / "a/b/memory.current", "100\n");
  EXPECT_EQ(left_by_groups(groups, "a/b", 1000), 1000);
  write(groups / "a/memory.max", "900\n");
  write(groups / "a/memory.current", "300\n");
  EXPECT_EQ(left_by_groups(groups, "a/b", 1000), 600);
  EXPECT_EQ(left_by_groups(groups, "a/b", 500), 500);
  EXPECT_EQ(left_by_groups(groups, "", 1000), 1000);
  write(groups / "a/memory.stat", "anon 7\ninactive_file 50\nfile 80\n");
  EXPECT_EQ(left_by_groups(groups, "a/b", 1000), 650);
  write(groups / "a/memory.current", "1200\n");
  EXPECT_EQ(left_by_groups(groups, "a/b", 1000), 0);
}

TEST(OwnMemory, IsSome) { EXPECT_GT(available_memory_bytes(), 0); }

}  // namespace
}  // namespace penstock
