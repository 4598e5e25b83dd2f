#include <gtest/gtest.h>

TEST(Agreement, WithSimGrid) {
  GTEST_SKIP() << "SimGrid was not there when this was built (Debian package libsimgrid-dev)";
}
