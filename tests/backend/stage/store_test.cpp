// The store of one rank, its random numbers, its losses and its count of bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <vector>

#include "backend/data/safetensors.hpp"
#include "backend/device/memory.hpp"
#include "backend/operators/random.hpp"
#include "backend/stage/loss.hpp"
#include "backend/stage/recipe/store.hpp"
#include "base/error.hpp"
#include "tests/backend/stage/graph_builder.hpp"
#include "tests/models/models.hpp"

namespace penstock::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(TensorStore, TheFirstGradientIsStoredTheOthersAreAdded) {
  TensorStore store({{3, at::zeros({2, 2})}});
  EXPECT_FALSE(store.gradient(3).defined());
  store.accumulate(3, at::ones({2, 2}));
  store.accumulate(3, at::full({2, 2}, 2.0));
  EXPECT_TRUE(at::equal(store.gradient(3), at::full({2, 2}, 3.0)));
  store.clear_gradients();
  EXPECT_FALSE(store.gradient(3).defined());
  store.accumulate(3, at::full({2, 2}, 5.0));
  EXPECT_TRUE(at::equal(store.gradient(3), at::full({2, 2}, 5.0)));
}

TEST(TensorStore, KeepsAGradientThatNobodyElseHolds) {
  TensorStore store({{0, at::zeros({8})}});
  at::Tensor own = at::ones({8});
  const void* memory = own.data_ptr();
  store.accumulate(0, std::move(own));
  EXPECT_EQ(store.gradient(0).data_ptr(), memory);
}

TEST(TensorStore, CopiesAGradientThatSomebodyElseHolds) {
  TensorStore store({{0, at::zeros({8})}});
  const at::Tensor shared = at::ones({8});
  store.accumulate(0, shared);
  store.accumulate(0, at::ones({8}));
  EXPECT_TRUE(at::equal(shared, at::ones({8})));
  store.clear_gradients();
  store.accumulate(0, shared.expand({8}));
  store.accumulate(0, at::ones({8}));
  EXPECT_TRUE(at::equal(shared, at::ones({8})));
  EXPECT_TRUE(at::equal(store.gradient(0), at::full({8}, 2.0)));
}

TEST(TensorStore, AddsTheGradientOfAViewInItsPlace) {
  TensorStore store({{0, at::zeros({2, 3})}});
  store.accumulate(0, {.sizes = {2}, .strides = {3}, .offset = 1}, at::ones({2}));  // column 1
  store.accumulate(0, at::ones({2, 3}));
  const at::Tensor expected = at::ones({2, 3});
  expected.select(1, 1).fill_(2);
  EXPECT_TRUE(at::equal(store.gradient(0), expected));
  store.clear_gradients();
  store.accumulate(0, {.sizes = {3}, .strides = {1}, .offset = 3}, at::ones({3}));  // row 1
  EXPECT_EQ(store.gradient(0).sum().item<float>(), 3);
}

TEST(TensorStore, AGradientThatHasAPlaceStaysThere) {
  TensorStore store({{0, at::zeros({2, 3})}});
  const at::Tensor memory = at::full({10}, 7.0);
  store.place_gradient(0, memory.narrow(0, 4, 6).view({2, 3}));
  EXPECT_FALSE(store.gradient(0).defined());
  for (int step = 0; step < 2; ++step) {
    store.clear_gradients();
    store.accumulate(0, at::ones({2, 3}));
    store.accumulate(0, at::full({2, 3}, 2.0));
    EXPECT_TRUE(memory.narrow(0, 4, 6).equal(at::full({6}, 3.0)));
  }
  store.clear_gradients();
  store.accumulate(0, {.sizes = {2}, .strides = {3}, .offset = 1}, at::ones({2}));  // column 1
  store.drop_gradients();
  store.accumulate(0, {.sizes = {3}, .strides = {1}, .offset = 3}, at::ones({3}));  // row 1
  EXPECT_TRUE(memory.narrow(0, 4, 6).equal(at::tensor({0.F, 0.F, 0.F, 1.F, 1.F, 1.F})));
  EXPECT_TRUE(memory.narrow(0, 0, 4).equal(at::full({4}, 7.0)));
}

TEST(TensorStore, InBf16APlaceIsOfTheTypeOfSums) {
  TensorStore store({{0, at::zeros({4}, at::kBFloat16)}});
  store.sum_in_float32();
  const at::Tensor memory = at::zeros({4});
  store.place_gradient(0, memory);
  store.accumulate(0, at::full({4}, 1.0, at::kBFloat16));
  store.accumulate(0, at::full({4}, 1.0 / 512, at::kBFloat16));
  EXPECT_TRUE(memory.equal(at::full({4}, 1 + 1.0 / 512)));
}

TEST(TensorStore, TellsWhoWatchesOfEachAddition) {
  TensorStore store({{0, at::zeros({3})}, {1, at::zeros({3})}});
  std::vector<int> added;
  store.watch_gradients([&](int tensor) { added.push_back(tensor); });
  store.accumulate(1, at::ones({3}));
  store.accumulate(0, {.sizes = {1}, .strides = {1}, .offset = 0}, at::ones({1}));
  store.accumulate(1, at::ones({3}));
  store.watch_gradients({});
  store.accumulate(0, at::ones({3}));
  EXPECT_EQ(added, (std::vector<int>{1, 0, 1}));
}

TEST(TensorStore, GivenWeightsTakeThePlaceOfTheFilesInItsType) {
  PENSTOCK_MODEL(path, "pippy");
  const Graph graph = read_pt2(path);
  const at::Tensor given = at::randn(graph.tensors.at(0).sizes, at::kBFloat16);
  const std::string file = ::testing::TempDir() + "penstock-given.safetensors";
  write_tensors(file, {{"elsewhere", given}});
  const SafetensorsFile opened(file);
  const MatchedWeights weights{.tensors = {{0, {&opened, "elsewhere"}}}, .renaming = ""};
  TensorStore store(graph, {0, 1}, at::kCPU, &weights);
  EXPECT_TRUE(store.tensor(0).equal(given.to(at::kFloat)));
  EXPECT_TRUE(store.tensor(1).equal(TensorStore(graph, {1}).tensor(1)));
  std::filesystem::remove(file);
}

TEST(TensorStore, HoldsAsManyBytesInEveryStep) {
  TensorStore store({{0, at::zeros({1000})}});
  store.accumulate(0, at::ones({1000}));
  const int64_t first = memory::held_bytes();
  for (int step = 0; step < 3; ++step) {
    store.clear_gradients();
    EXPECT_EQ(memory::held_bytes(), first);
    store.accumulate(0, at::ones({1000}));
    EXPECT_EQ(memory::held_bytes(), first);
  }
}

TEST(Memory, CountsEveryTensorToTheByte) {
  const int64_t before = memory::held_bytes();
  memory::reset_peak();
  {
    const at::Tensor a = at::empty({1000}, at::kFloat);
    EXPECT_EQ(memory::held_bytes() - before, 4000);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data_ptr()) % 64, 0U);  // what vector kernels expect
    const at::Tensor view = a.view({10, 100});
    EXPECT_EQ(memory::held_bytes() - before, 4000);
    const at::Tensor empty = at::empty({0});
    const at::Tensor b = at::empty({3}, at::kByte);
    EXPECT_EQ(memory::held_bytes() - before, 4003);
  }
  EXPECT_EQ(memory::held_bytes(), before);
  EXPECT_EQ(memory::peak_bytes() - before, 4003);
  memory::reset_peak();
  EXPECT_EQ(memory::peak_bytes(), before);
}

TEST(Memory, FollowsRawAllocationsAndResizing) {
  const int64_t before = memory::held_bytes();
  c10::Allocator* allocator = c10::GetAllocator(c10::DeviceType::CPU);
  void* raw = allocator->raw_allocate(128);
  EXPECT_EQ(memory::held_bytes() - before, 128);
  allocator->raw_deallocate(raw);
  at::Tensor grown = at::empty({4}, at::kFloat);
  grown.resize_({400});
  EXPECT_EQ(memory::held_bytes() - before, 1600);
  grown.reset();
  EXPECT_EQ(memory::held_bytes(), before);
}

TEST(OperatorSeed, DiffersInEachOfItsFourNumbers) {
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    for (int64_t step = 0; step < 3; ++step) {
      for (int64_t microbatch = 0; microbatch < 3; ++microbatch) {
        for (OperatorId op = 0; op < 3; ++op) {
          seeds.insert(operator_seed({seed, step, microbatch}, op));
        }
      }
    }
  }
  EXPECT_EQ(seeds.size(), 81U);
  EXPECT_EQ(operator_seed({1, 2, 3}, 4), operator_seed({1, 2, 3}, 4));
}

TEST(OperatorSeed, DiffersBetweenPartsWhereTheyDrawForThemselvesAlone) {
  std::set<uint64_t> seeds{operator_seed({1, 2, 3, 0}, 4)};
  for (int part = 0; part < 3; ++part) {
    seeds.insert(operator_seed({1, 2, 3, part}, 4, /*by_part=*/true));
    EXPECT_EQ(operator_seed({1, 2, 3, part}, 4), operator_seed({1, 2, 3}, 4));
  }
  EXPECT_EQ(seeds.size(), 4U);
}

TEST(MeanLoss, CrossEntropyTakesTheLastDimensionAsClasses) {
  const at::Tensor output = numbers("o", {2, 5, 7});
  const at::Tensor target = at::arange(10, at::kLong).remainder(7).view({2, 5});
  const at::Tensor expected = -at::log_softmax(output, -1).gather(-1, target.unsqueeze(-1)).mean();
  // Both sum 10 numbers near 2 in another order: each addition errs by half an ulp of at most 32.
  EXPECT_NEAR(mean_loss(Loss::cross_entropy, output, target).item<double>(),
              expected.item<double>(), 10 * 32 * 6e-8);
}

TEST(MeanLoss, CrossEntropyCountsOnlyTargetsThatAreNotIgnored) {
  const at::Tensor output = numbers("o", {4, 7}, at::kDouble);
  at::Tensor target = at::arange(4, at::kLong);
  const double whole =
      mean_loss(Loss::cross_entropy, output.slice(0, 0, 3), target.slice(0, 0, 3)).item<double>();
  target[3] = -100;
  EXPECT_EQ(counted_targets(Loss::cross_entropy, target), 3);
  EXPECT_DOUBLE_EQ(mean_loss(Loss::cross_entropy, output, target).item<double>(), whole);
  EXPECT_EQ(mean_loss(Loss::cross_entropy, output, at::full({4}, -100, at::kLong)).item<double>(),
            0);
}

TEST(MeanLoss, SmoothedLabelsAreAMixtureWithEveryClass) {
  const at::Tensor output = numbers("o", {4, 7}, at::kDouble);
  at::Tensor target = at::arange(4, at::kLong);
  target[1] = -100;
  const at::Tensor losses = -at::log_softmax(output, -1);
  double expected = 0;  // over the three that count
  for (const int row : {0, 2, 3})
    expected +=
        (0.9 * losses[row][row].item<double>() + 0.1 * losses[row].mean().item<double>()) / 3;
  EXPECT_NEAR(mean_loss({Loss::cross_entropy, 0.1}, output, target).item<double>(), expected,
              1e-14);
}

TEST(MeanLoss, MeanSquaredErrorAndTheModelsOwnOutput) {
  const at::Tensor output = at::arange(4, at::kDouble).view({2, 2});
  EXPECT_DOUBLE_EQ(mean_loss(Loss::mse, output, at::zeros({2, 2}, at::kDouble)).item<double>(),
                   (0 + 1 + 4 + 9) / 4.0);
  EXPECT_DOUBLE_EQ(mean_loss(Loss::output, output, {}).item<double>(), 1.5);
}

TEST(MeanLoss, BinaryCrossEntropyIsOfLogits) {
  const at::Tensor output = numbers("o", {4, 3}, at::kDouble);
  const at::Tensor target = numbers("t", {4, 3}, at::kDouble).sigmoid();
  const at::Tensor likely = output.sigmoid();
  const at::Tensor expected = -(target * likely.log() + (1 - target) * (1 - likely).log()).mean();
  // Each of 12 terms near 1 is rounded in a few operations of 2^-53.
  EXPECT_NEAR(mean_loss(Loss::bce_with_logits, output, target).item<double>(),
              expected.item<double>(), 12 * 8 * 1.2e-16);
}

std::string refusal(Loss loss, const at::Tensor& output, const at::Tensor& target) {
  try {
    mean_loss(loss, output, target);
  } catch (const InputError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(MeanLoss, RefusesShapesThatDoNotFitNamingBoth) {
  const at::Tensor output = at::zeros({2, 5, 7});
  EXPECT_THAT(refusal(Loss::cross_entropy, output, at::zeros({2, 4}, at::kLong)),
              AllOf(HasSubstr("[2, 5, 7]"), HasSubstr("[2, 4]")));
  EXPECT_THAT(refusal(Loss::cross_entropy, output, at::zeros({2, 5})), HasSubstr("int64"));
  EXPECT_THAT(refusal(Loss::cross_entropy, output, at::full({2, 5}, 7, at::kLong)),
              HasSubstr("0 to 6"));
  EXPECT_THAT(refusal(Loss::mse, output, at::zeros({2, 5})), HasSubstr("[2, 5]"));
  EXPECT_THAT(refusal(Loss::mse, output, {}), HasSubstr("absent"));
  EXPECT_THAT(refusal(Loss::bce_with_logits, output, at::ones({2, 5, 7}, at::kLong)),
              AllOf(HasSubstr("bce_with_logits"), HasSubstr("Long"), HasSubstr("Float")));
  EXPECT_THAT(refusal(Loss::output, at::zeros({2}, at::kLong), {}), HasSubstr("Long"));
}

}  // namespace
}  // namespace penstock::test
