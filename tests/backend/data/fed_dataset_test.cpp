// The batches that a script feeds, as data.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "backend/data/fed_dataset.hpp"
#include "backend/data/safetensors.hpp"

namespace penstock {
namespace {

/// Memory with a batch: places [2, 4) of global batches of 4, a pair of numbers each.
class Fed {
 public:
  Fed() : descriptor_(memfd_create("test", MFD_CLOEXEC)) {
    resize_memory(descriptor_, batch().bytes);
  }
  ~Fed() { close(descriptor_); }
  Fed(const Fed&) = delete;
  Fed& operator=(const Fed&) = delete;

  SharedBatch batch() const {
    return {.descriptor = descriptor_,
            .bytes = 128,
            .first = 2,
            .samples = 2,
            .tensors = {{"x", "int64", {2, 2}, 64}}};
  }
  FedDataset open() const { return {batch(), {{"x", DType::int64, {2}}}, /*global_batch=*/4}; }
  void feed(const std::vector<int64_t>& numbers) const {
    const SharedMemory memory(descriptor_, batch().bytes);
    std::ranges::copy(std::as_bytes(std::span(numbers)), memory.bytes().begin() + 64);
  }

 private:
  const int descriptor_;
};

std::vector<int64_t> read(const FedDataset& data, int64_t first, size_t count) {
  std::vector<int64_t> numbers(2 * count);
  data.read("x", first, std::as_writable_bytes(std::span(numbers)));
  return numbers;
}

TEST(FedDataset, EachStepReadsWhatTheMemoryHoldsThen) {
  const Fed fed;
  const FedDataset data = fed.open();
  fed.feed({1, 2, 3, 4});
  EXPECT_EQ(read(data, 2, 2), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(read(data, 3, 1), (std::vector<int64_t>{3, 4}));
  fed.feed({5, 6, 7, 8});
  EXPECT_EQ(read(data, 4 + 2, 2), (std::vector<int64_t>{5, 6, 7, 8}));  // of the next step
  EXPECT_EQ(data.samples(), kEndless);
  EXPECT_EQ(data.place("x", 7, 1), "x[1], element 1");
}

TEST(FedDataset, SamplesAndTensorsOfOthersAreNotRead) {
  const Fed fed;
  const FedDataset data = fed.open();
  EXPECT_THROW(read(data, 1, 1), std::logic_error);
  EXPECT_THROW(read(data, 3, 2), std::logic_error);
  EXPECT_THROW(data.type("target"), std::logic_error);
}

}  // namespace
}  // namespace penstock
