// The need of several ranks on a GPU of /dev/shm.
#include "backend/communication/nccl/shared_memory.hpp"

#include <gmock/gmock.h>

#include "backend/communication/nccl/rounds.hpp"
#include "base/error.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// A lane between two ranks has two ends, of 32.6 MiB each: more than the 64 MiB of a container.
TEST(SharedMemory, TooLittleOfItIsAMistakeWithAReasonAndACure) {
  const int ends = ends_of({{0, 1, false}});
  EXPECT_EQ(ends, 2);
  EXPECT_NO_THROW(check_shared_memory(ends, 2 * 34'210'176));
  EXPECT_THAT([&] { check_shared_memory(ends, int64_t{64} << 20); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("/dev/shm"), HasSubstr("64.0 MiB free"),
                                              HasSubstr("65.3 MiB"), HasSubstr("--shm-size"))));
}

TEST(SharedMemory, IsMeasured) { EXPECT_GT(free_shared_memory(), 0); }

}  // namespace
}  // namespace penstock
