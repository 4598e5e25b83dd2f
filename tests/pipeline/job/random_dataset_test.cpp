// Made-up samples: in range, alike however they are asked for, and distributed as promised.
#include "pipeline/job/random_dataset.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace penstock {
namespace {

using ::testing::Each;

constexpr int64_t kWidth = 8;

std::vector<ExpectedSample> expected() {
  return {{"tokens", DType::int32, {kWidth}, 11},      {"mask", DType::int64, {kWidth}},
          {"kept", DType::boolean, {kWidth}},          {"image", DType::bfloat16, {kWidth}},
          {"labels", DType::int64, {kWidth}, 3, -100}, {kTarget, DType::float32, {kWidth}}};
}

template <typename Element>
std::vector<Element> read(const RandomDataset& data, const std::string& name, int64_t first,
                          int64_t count) {
  std::vector<Element> elements(static_cast<size_t>(count * kWidth));
  EXPECT_EQ(static_cast<size_t>(data.type(name).bytes()), kWidth * sizeof(Element));
  data.read(name, first, std::as_writable_bytes(std::span(elements)));
  return elements;
}

TEST(RandomDataset, IdsAreAllOfTheirRange) {
  const RandomDataset data(Job{}, expected());
  for (const auto& [name, limit] : {std::pair("tokens", 11), std::pair("labels", 3)}) {
    const std::vector<int64_t> ids = read<int64_t>(data, name, 0, 100);
    EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), limit) << name;
    EXPECT_EQ(*std::ranges::min_element(ids), 0) << name;
    EXPECT_EQ(*std::ranges::max_element(ids), limit - 1) << name;
  }
}

TEST(RandomDataset, AMaskLeavesNothingOutAndTruthValuesAreBoth) {
  const RandomDataset data(Job{}, expected());
  EXPECT_THAT(read<int64_t>(data, "mask", 5, 10), Each(1));
  const std::vector<uint8_t> kept = read<uint8_t>(data, "kept", 0, 10);
  EXPECT_EQ(std::set(kept.begin(), kept.end()), (std::set<uint8_t>{0, 1}));
}

// The mean of n has a standard deviation of 1 / sqrt(n), and so nearly has their mean square;
// neither is off by more than four.
TEST(RandomDataset, FloatsHaveMean0AndVariance1) {
  const RandomDataset data(Job{}, expected());
  const std::vector<float> numbers = read<float>(data, "image", 0, 2000);
  double sum = 0, squares = 0;
  for (const float number : numbers) {
    sum += number;
    squares += number * number;
  }
  const auto count = static_cast<double>(numbers.size());
  EXPECT_NEAR(sum / count, 0, 4 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 4 / std::sqrt(count));
}

TEST(RandomDataset, TargetsOfBceAreProbabilities) {
  const auto outside = [](float p) { return p < 0 || p > 1; };
  Job job;
  job.loss = Loss::bce_with_logits;
  const auto targets = read<float>(RandomDataset(job, expected()), kTarget, 0, 100);
  EXPECT_TRUE(std::ranges::none_of(targets, outside));
  job.loss = Loss::mse;
  EXPECT_TRUE(
      std::ranges::any_of(read<float>(RandomDataset(job, expected()), kTarget, 0, 100), outside));
}

TEST(RandomDataset, ASampleIsTheSameHoweverItIsRead) {
  const RandomDataset data(Job{}, expected());
  std::vector<float> parts = read<float>(data, "image", 1'000'000'000'000, 3);
  const std::vector<float> rest = read<float>(data, "image", 1'000'000'000'003, 1);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(read<float>(RandomDataset(Job{}, expected()), "image", 1'000'000'000'000, 4), parts);
  EXPECT_EQ(std::set(parts.begin(), parts.end()).size(), parts.size());
  Job other;
  other.seed = 1;
  EXPECT_NE(read<float>(RandomDataset(other, expected()), "image", 1'000'000'000'000, 4), parts);
}

}  // namespace
}  // namespace penstock
