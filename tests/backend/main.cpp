// Counts tensor memory from the start, as a worker does. One thread for each rank: the models are
// tiny, and where other processes have the cores, threads that wait for each other take minutes.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "backend/memory.hpp"

int main(int argc, char** argv) {
  penstock::memory::count_cpu();
  at::set_num_threads(1);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
