// Counts tensor memory from the start, as a worker does.
#include <gtest/gtest.h>

#include "backend/memory.hpp"

int main(int argc, char** argv) {
  penstock::memory::count_cpu();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
