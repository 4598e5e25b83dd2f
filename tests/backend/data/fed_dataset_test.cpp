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
  FedDataset open(const FedPlaces& places = {4, 2, 0, 2}) const {
    return {batch(), {{"x", DType::int64, {2}}}, places};
  }
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

TEST(FedDataset, APartTakesItsSamplesAndPlacesBehindThemAnyOne) {
  const Fed fed;
  fed.feed({1, 2, 3, 4});
  Plan plan{.microbatches = 2, .microbatch = 1, .data_parallel = 2};
  plan.job.global_batch = 4;
  const FedDataset last = fed.open(places_of({1, 1, 1}, fed.batch(), plan));
  EXPECT_EQ(read(last, 2, 1), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(read(last, 3, 1), (std::vector<int64_t>{1, 2}));  // there is no third
  EXPECT_EQ(last.place("x", 2, 1), "x[1], element 1");
  EXPECT_THROW(read(last, 1, 1), std::logic_error);  // another script's
}

TEST(FedDataset, PartsInSmallerMicrobatchesMakeASmallerStep) {
  Plan plan{.microbatches = 2, .microbatch = 4, .data_parallel = 3};
  plan.job.global_batch = 24;
  const SharedBatch of_script{.first = 8, .samples = 8}, of_all{.first = 0, .samples = 24};
  const FedPlaces one = places_of({4, 3, 3}, of_script, plan);
  EXPECT_EQ(one.global_batch, 18);
  EXPECT_EQ(one.of_script, 6);
  EXPECT_EQ(one.first, 4);
  EXPECT_EQ(one.samples, 3);
  EXPECT_EQ(places_of({0, 24, 4}, of_all, plan).of_script, 24);
}

}  // namespace
}  // namespace penstock
