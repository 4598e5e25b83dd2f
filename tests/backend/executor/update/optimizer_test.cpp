// The optimizers' arithmetic on cases small enough to compute by hand. That it equals
// torch.optim's to the last bit is shown by tests/cli/execute/test_execute.py.
#include <gtest/gtest.h>

#include "backend/executor/update/fused_step.hpp"
#include "backend/executor/update/gradient_norm.hpp"
#include "backend/executor/update/optimizer.hpp"

namespace penstock {
namespace {

OptimizerSpec sgd(double rate, double momentum, double decay) {
  OptimizerSpec spec;
  spec.learning_rate = rate;
  spec.momentum = momentum;
  spec.weight_decay = decay;
  return spec;
}

/// A store of one parameter, of float64 so that these powers of two are exact.
TensorStore store_of(double value) {
  return TensorStore(std::map<int, at::Tensor>{{0, at::full({1}, value, at::kDouble)}});
}

double step(Optimizer& optimizer, TensorStore& store, double gradient) {
  store.clear_gradients();
  store.accumulate(0, at::full({1}, gradient, at::kDouble));
  optimizer.step(store, {0});
  return store.tensor(0).item<double>();
}

TEST(Optimizer, SgdStepsAgainstTheGradient) {
  Optimizer optimizer(sgd(0.5, 0, 0));
  TensorStore store = store_of(1);
  EXPECT_EQ(step(optimizer, store, 0.5), 0.75);
  EXPECT_EQ(step(optimizer, store, -1), 1.25);
  EXPECT_TRUE(optimizer.states()[0].tensors.empty());
}

TEST(Optimizer, AGivenRateIsTakenAsItIsAndOthersKeepTheirRatioToTheJobs) {
  Optimizer optimizer(sgd(0.1, 0, 0), {{1, {0.05, 0}}});
  TensorStore store(std::map<int, at::Tensor>{{0, at::zeros({1}, at::kDouble)},
                                              {1, at::zeros({1}, at::kDouble)}});
  for (const int index : {0, 1}) store.accumulate(index, at::ones({1}, at::kDouble));
  optimizer.step_at(store, {0, 1}, 0.3);
  EXPECT_EQ(store.tensor(0).item<double>(), -0.3);
  EXPECT_EQ(store.tensor(1).item<double>(), -0.05 / 0.1 * 0.3);
}

TEST(Optimizer, SgdMomentumStartsWithTheFirstGradient) {
  Optimizer optimizer(sgd(0.5, 0.5, 0));
  TensorStore store = store_of(1);
  EXPECT_EQ(step(optimizer, store, 1), 0.5);     // buffer 1
  EXPECT_EQ(step(optimizer, store, 1), -0.25);   // buffer 0.5 x 1 + 1
  EXPECT_EQ(step(optimizer, store, 0), -0.625);  // buffer 0.75
}

TEST(Optimizer, SgdWeightDecayIsPartOfTheGradient) {
  Optimizer optimizer(sgd(0.5, 0, 0.25));
  TensorStore store = store_of(2);
  EXPECT_EQ(step(optimizer, store, 1), 2 - 0.5 * (1 + 0.25 * 2));
}

TEST(Optimizer, TheMomentumBufferIsNotTheGradient) {
  Optimizer optimizer(sgd(1, 0.5, 0));
  TensorStore store = store_of(0);
  step(optimizer, store, 1);
  EXPECT_FALSE(optimizer.states()[0].tensors["momentum_buffer"].is_alias_of(store.gradient(0)));
}

TEST(Optimizer, AdamwFirstStepIsTheLearningRate) {
  OptimizerSpec spec;
  spec.kind = OptimizerSpec::Kind::adamw;
  spec.learning_rate = 0.25;
  spec.weight_decay = 0.5;
  spec.epsilon = 0;
  Optimizer optimizer(spec);
  TensorStore store = store_of(2);
  // Decayed first: 2 (1 - 0.125); both averages have the same bias, so that the step is the rate
  // but for roundings of a few units in the last place of numbers below 2: 8 x 2^-52.
  EXPECT_NEAR(step(optimizer, store, 3), 1.75 - 0.25, 8 * 0x1p-52);
}

TEST(Optimizer, TensorsHaveSettingsOfTheirOwnAndAFactorForAll) {
  Optimizer optimizer(sgd(0.5, 0, 0), {{0, {0.25, 0.5}}});
  TensorStore store = store_of(2);
  store.clear_gradients();
  store.accumulate(0, at::full({1}, 3, at::kDouble));
  optimizer.step(store, {0}, 0.5);
  EXPECT_EQ(store.tensor(0).item<double>(), 2 - 0.125 * (3 + 0.5 * 2));
}

/// Steps too small for bfloat16, whose next numbers below 1 are 2^-8 apart, add up in the master.
TEST(Optimizer, AMasterKeepsWhatBfloat16Cannot) {
  TensorStore store(std::map<int, at::Tensor>{{0, at::ones({1}, at::kBFloat16)}});
  store.sum_in_float32();
  Optimizer optimizer(sgd(1, 0, 0));
  for (int i = 0; i < 4; ++i) {
    store.clear_gradients();
    store.accumulate(0, at::full({1}, 0x1p-10, at::kBFloat16));
    EXPECT_EQ(store.gradient(0).scalar_type(), at::kFloat);
    optimizer.step(store, {0});
  }
  EXPECT_EQ(store.tensor(0).scalar_type(), at::kBFloat16);
  EXPECT_EQ(store.tensor(0).item<double>(), 1 - 0x1p-8);
  EXPECT_EQ(optimizer.states()[0].tensors["master"].item<double>(), 1 - 0x1p-8);
}

/// 1 + 2^-10 needs more digits than bfloat16 has.
TEST(Optimizer, GradientsOfMastersAreSummedInFloat32) {
  TensorStore store(std::map<int, at::Tensor>{{0, at::ones({2}, at::kBFloat16)}});
  store.sum_in_float32();
  for (int step = 0; step < 2; ++step) {
    store.clear_gradients();
    store.accumulate(0, at::full({2}, 1, at::kBFloat16));
    store.accumulate(0, at::full({2}, 0x1p-10, at::kBFloat16));
    store.accumulate(0, ViewGeometry{{1}, {1}, 1}, at::full({1}, 0x1p-11, at::kBFloat16));
    EXPECT_EQ(store.gradient(0)[0].item<double>(), 1 + 0x1p-10);
    EXPECT_EQ(store.gradient(0)[1].item<double>(), 1 + 0x1p-10 + 0x1p-11);
  }
}

TEST(Clipping, IsByTheNormOfAllGradientsAndOnlyAboveIt) {
  TensorStore store(std::map<int, at::Tensor>{{0, at::zeros({1}, at::kDouble)},
                                              {1, at::zeros({1}, at::kDouble)}});
  store.accumulate(0, at::full({1}, 3, at::kDouble));
  store.accumulate(1, at::full({1}, 4, at::kDouble));
  EXPECT_EQ(squared_norm(store, {0, 1}), 25);
  EXPECT_EQ(squared_norm(store, {1}), 16);
  clip_gradients(store, 5, 6);
  EXPECT_EQ(store.gradient(0).item<double>(), 3);
  clip_gradients(store, 5, 2.5);
  EXPECT_EQ(store.gradient(1).item<double>(), 4 * (2.5 / (5 + 1e-6)));
}

/// Steps tensors of two types, one with settings of its own and one that came a step later, in both
/// ways. Each step rounds some ten times, by 2^-53 (float32: 2^-24) of numbers below 8: below 400
/// of that after five, with what is left of earlier ones.
void expect_fused_as_single(const OptimizerSpec& spec) {
  at::manual_seed(11);
  const std::map<int, at::Tensor> begin{{0, at::randn({17}, at::kDouble)},
                                        {1, at::randn({1}, at::kDouble)},
                                        {2, at::randn({33}, at::kFloat)},
                                        {3, at::randn({5}, at::kDouble)}};
  std::map<int, at::Tensor> fused;
  for (const auto& [index, tensor] : begin) fused[index] = tensor.clone();
  TensorStore store(begin);
  const ParameterSettings own{0.25, 0.125};
  Optimizer optimizer(spec, {{1, own}});
  std::map<int, Optimizer::State> states;
  for (int step = 0; step < 5; ++step) {
    store.clear_gradients();
    std::vector<TensorStep> stepped;
    for (const auto& [index, tensor] : fused) {
      if (index == 3 && step == 0) continue;
      const at::Tensor gradient = at::randn_like(tensor);
      store.accumulate(index, gradient.clone());
      ++states[index].steps;
      const ParameterSettings common{spec.learning_rate, spec.weight_decay};
      stepped.push_back({tensor, gradient, index == 1 ? own : common, &states[index]});
    }
    optimizer.step(store, {0, 1, 2, 3});
    fused_step(spec, stepped);
  }
  for (const auto& [index, tensor] : fused) {
    const double rounding = tensor.scalar_type() == at::kDouble ? 0x1p-53 : 0x1p-24;
    const auto distance = (store.tensor(index) - tensor).abs().max().item<double>();
    EXPECT_LE(distance, 400 * 8 * rounding) << index;
    EXPECT_EQ(states[index].tensors.size(), optimizer.states()[index].tensors.size());
  }
}

/// The fused step runs on GPUs alone, but is the same on the CPU.
TEST(FusedStep, IsTheSingleTensorsOne) {
  expect_fused_as_single(sgd(0.0625, 0, 0));
  expect_fused_as_single(sgd(0.0625, 0.5, 0.25));
  OptimizerSpec adamw;
  adamw.kind = OptimizerSpec::Kind::adamw;
  adamw.learning_rate = 0.0625;
  adamw.weight_decay = 0.5;
  expect_fused_as_single(adamw);
}

TEST(Optimizer, LeavesParametersWithoutAGradientAlone) {
  OptimizerSpec spec = sgd(0.5, 0, 0.5);
  Optimizer optimizer(spec);
  TensorStore store = store_of(2);
  store.clear_gradients();
  optimizer.step(store, {0});
  EXPECT_EQ(store.tensor(0).item<double>(), 2);
  EXPECT_TRUE(optimizer.states().empty());
}

}  // namespace
}  // namespace penstock
