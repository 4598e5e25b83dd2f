// Which samples the places of a run take: epochs, shuffled or not, and their last batches.
#include "pipeline/job/sample_order.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "tests/base/support.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t filled = -1;

/// What `places` places from `first` on take; `filled` where one takes nothing that counts.
std::vector<int64_t> taken(const SampleOrder& order, int64_t first, int64_t places) {
  std::vector<int64_t> samples;
  for (int64_t i = first; i < first + places; ++i)
    samples.push_back(order.sample(i).value_or(filled));
  return samples;
}

Job job_of(int64_t global_batch, std::optional<LastBatch> last = std::nullopt,
           bool shuffle = false) {
  Job job;
  job.global_batch = global_batch;
  job.last_batch = last;
  job.shuffle = shuffle;
  return job;
}

TEST(SampleOrder, GoesOnWithTheNextEpochUnlessToldOtherwise) {
  EXPECT_THAT(taken(SampleOrder(job_of(2), 3), 0, 8), ElementsAre(0, 1, 2, 0, 1, 2, 0, 1));
  EXPECT_THAT(taken(SampleOrder(job_of(2, LastBatch::wrap), 3), 2, 3), ElementsAre(2, 0, 1));
}

TEST(SampleOrder, DropsWhatIsLeftOfAnEpoch) {
  const SampleOrder order(job_of(3, LastBatch::drop), 8);
  EXPECT_EQ(order.epoch(), 6);
  EXPECT_THAT(taken(order, 3, 6), ElementsAre(3, 4, 5, 0, 1, 2));
}

TEST(SampleOrder, FillsUpTheLastBatchOfAnEpoch) {
  const SampleOrder order(job_of(3, LastBatch::pad), 4);
  EXPECT_EQ(order.epoch(), 6);
  EXPECT_THAT(taken(order, 0, 8), ElementsAre(0, 1, 2, 3, filled, filled, 0, 1));
  EXPECT_EQ(SampleOrder(job_of(2, LastBatch::pad), 4).epoch(), 4) << "nothing is left";
}

TEST(SampleOrder, ShuffledEpochsHaveEachSampleOnceInAnOrderOfTheirOwn) {
  for (const int64_t samples : {1, 2, 3, 5, 16, 17, 64, 1000, 4097}) {
    const SampleOrder order(job_of(1, std::nullopt, true), samples);
    std::vector<std::vector<int64_t>> epochs;
    for (int64_t epoch = 0; epoch < 4; ++epoch) {
      epochs.push_back(taken(order, epoch * samples, samples));
      std::vector<int64_t> sorted = epochs.back();
      std::ranges::sort(sorted);
      std::vector<int64_t> all(static_cast<size_t>(samples));
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(sorted, all) << samples;
      EXPECT_TRUE(samples < 16 || epochs.back() != all) << samples;
      EXPECT_TRUE(samples < 16 || std::ranges::count(epochs, epochs.back()) == 1) << samples;
    }
  }
}

TEST(SampleOrder, AnotherSeedIsAnotherOrder) {
  Job job = job_of(1, std::nullopt, true);
  const std::vector<int64_t> first = taken(SampleOrder(job, 100), 0, 100);
  EXPECT_EQ(taken(SampleOrder(job, 100), 0, 100), first);
  job.seed = 1;
  EXPECT_NE(taken(SampleOrder(job, 100), 0, 100), first);
}

TEST(SampleOrder, ShuffledSamplesAreLeftOutOrFilledUpAtTheEndOfEachEpoch) {
  const SampleOrder dropped(job_of(4, LastBatch::drop, true), 6);
  const SampleOrder padded(job_of(4, LastBatch::pad, true), 6);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const std::vector<int64_t> samples = taken(padded, 8 * epoch, 8);
    EXPECT_EQ(std::ranges::count(samples, filled), 2);
    EXPECT_EQ(samples[6] + samples[7], 2 * filled);
    EXPECT_EQ(taken(dropped, 4 * epoch, 4), std::vector(samples.begin(), samples.begin() + 4));
  }
}

// 6 degrees of freedom for each of 7 positions: the chi-square of a uniform choice lies below 28 in
// all but one case of 10^4. Keys are fixed, so the test always comes out the same.
TEST(Permuted, EachSampleIsAsOftenAtEachPosition) {
  constexpr int64_t size = 7, keys = 7000;
  std::vector<std::vector<double>> counts(size, std::vector<double>(size));
  for (uint64_t key = 0; key < keys; ++key)
    for (int64_t position = 0; position < size; ++position)
      ++counts[position][permuted(position, size, key << 32)];
  for (const std::vector<double>& row : counts) {
    double chi_square = 0;
    for (const double count : row) chi_square += (count - 1000) * (count - 1000) / 1000;
    EXPECT_LT(chi_square, 28);
  }
}

// How often each of the 24 orders of 4 comes: 23 degrees of freedom, below 55 in all but one case
// of 5000.
TEST(Permuted, EachOrderOfFewSamplesIsAsLikely) {
  constexpr int keys = 24000;
  std::map<std::vector<int64_t>, int> counts;
  for (uint64_t key = 0; key < keys; ++key) {
    std::vector<int64_t> order;
    for (int64_t position = 0; position < 4; ++position)
      order.push_back(permuted(position, 4, key << 32));
    ++counts[order];
  }
  EXPECT_EQ(counts.size(), 24);
  double chi_square = 0;
  for (const auto& [order, count] : counts) chi_square += std::pow(count - 1000, 2) / 1000;
  EXPECT_LT(chi_square, 55);
}

TEST(Permuted, TakesMoreSamplesThanFitIntoMemory) {
  constexpr int64_t size = 3'000'000'000'000;
  std::vector<int64_t> images;
  for (int64_t position = size - 1000; position < size; ++position)
    images.push_back(permuted(position, size, 5));
  std::ranges::sort(images);
  EXPECT_EQ(std::ranges::adjacent_find(images), images.end());
  EXPECT_GE(images.front(), 0);
  EXPECT_LT(images.back(), size);
  EXPECT_LT(images.front(), size / 50) << "they lie all over";
  EXPECT_GT(images.back(), size / 50 * 49);
}

TEST(GlobalBatch, ThatIsLargerThanTheDataIsRefusedUnlessTheJobSaysWhatFillsItUp) {
  const auto refusal = [](std::optional<LastBatch> last, int64_t samples) {
    return input_error([&] { check_global_batch(job_of(8, last), samples); });
  };
  EXPECT_THAT(refusal(std::nullopt, 7),
              AllOf(HasSubstr("8 samples, but the data has 7"),
                    HasSubstr("`global_batch: 7` or less"), HasSubstr("`last_batch: pad`")));
  EXPECT_THAT(refusal(LastBatch::drop, 7), HasSubstr("nothing is left of 7 samples"));
  EXPECT_EQ(refusal(LastBatch::wrap, 7) + refusal(LastBatch::pad, 7), "");
  EXPECT_EQ(refusal(std::nullopt, 8) + refusal(LastBatch::drop, 8), "");
}

}  // namespace
}  // namespace penstock
