// The message of a user's mistake, whatever the value in it.
#include "base/error.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(InputError, NamesPlaceProblemAndCure) {
  EXPECT_STREQ(InputError("plan.yaml:3", "`x` is no number", "Write 1.").what(),
               "plan.yaml:3: `x` is no number\n  Write 1.");
  EXPECT_STREQ(InputError("", "nothing given").what(), "nothing given");
}

// A zero byte in a value ended the message before its cure.
TEST(InputError, ControlCharactersOfAValueAreWrittenOut) {
  EXPECT_STREQ(InputError("f", std::string("`a\0\x1b[2J\x7f`", 9), "é\n2").what(),
               "f: `a\\x00\\x1b[2J\\x7f`\n  é\n2");
}

}  // namespace
}  // namespace penstock
