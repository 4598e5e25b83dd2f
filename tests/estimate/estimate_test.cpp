// Properties of every estimate; single operators are in work_test.cpp.
#include "estimate/estimate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.hpp"
#include "estimate/sizes.hpp"
#include "estimate/work.hpp"
#include "graph/pt2/pt2.hpp"
#include "tests/estimate/support.hpp"
#include "tests/models/models.hpp"

namespace penstock {
namespace {

using testing::batch;
using testing::GraphBuilder;
using testing::two_linears;

Job job(int64_t global_batch, Loss loss = Loss::mse) {
  Job job;
  job.model = "/models/model.pt2";
  job.loss = loss;
  job.global_batch = global_batch;
  job.optimizer.kind = OptimizerSpec::Kind::adamw;
  return job;
}

TEST(Estimate, AddsTheLossToTheOperatorThatMakesTheFirstOutput) {
  const Profile profile = estimate(two_linears().graph, job(2), testing::round_spec());
  const MicrobatchCosts& costs = *profile.at(2);
  // Result of 32 bytes read with its target, and a gradient made from both.
  EXPECT_DOUBLE_EQ(costs.loss_forward.mean_s, 64 / 1000.0 + 0.25);
  EXPECT_DOUBLE_EQ(costs.operators[1].times.backward_input.mean_s,
                   (224 / 500.0 + 0.25) + (96 / 1000.0 + 0.25));
}

TEST(Estimate, TakesRatesFromTheBandwidth) {
  const Profile profile = estimate(two_linears().graph, job(2), testing::round_spec());
  EXPECT_DOUBLE_EQ(profile.optimizer_s_per_byte, 7 / 500.0);  // AdamW at half the bandwidth
  EXPECT_DOUBLE_EQ(profile.accumulate_s_per_byte, 3 / 1000.0);
  EXPECT_DOUBLE_EQ(profile.zero_s_per_byte, 1 / 1000.0);
  EXPECT_EQ(profile.action_overhead_s, 1);
  EXPECT_EQ(profile.device.kind, "cuda");
  EXPECT_EQ(profile.links.front().kind, "wire");
  EXPECT_EQ(estimate_note(profile), "estimated from the figures of Round, not measured");
  EXPECT_EQ(estimate_note({}), "");
}

TEST(Estimate, IsOfEveryDivisorOfTheBatchThatFits) {
  const auto sizes = [](const Profile& profile) {
    std::vector<int64_t> result;
    for (const MicrobatchCosts& costs : profile.microbatches) result.push_back(costs.microbatch);
    return result;
  };
  const Graph graph = two_linears().graph;
  DeviceSpec device = testing::round_spec();
  EXPECT_EQ(sizes(estimate(graph, job(12), device)), (std::vector<int64_t>{1, 2, 3, 4, 6, 12}));
  // A unit's parameters with gradients and two states take 4 x 160 bytes, samples some 100 each.
  device.memory_bytes = 900;
  const std::vector<int64_t> small = sizes(estimate(graph, job(12), device));
  EXPECT_GE(small.size(), 1U);
  EXPECT_LT(small.size(), 6U);
  device.memory_bytes = 700;
  EXPECT_THROW(estimate(graph, job(12), device), InputError);
}

TEST(EstimateSizes, AreThoseTheModelAllows) {
  Graph graph = two_linears().graph;
  graph.min_batch = 3;
  EXPECT_EQ(divisors_allowed(graph, 12, "job"), (std::vector<int64_t>{3, 4, 6, 12}));
  graph.dynamic_batch = false;
  graph.example_batch = 5;
  EXPECT_EQ(divisors_allowed(graph, 10, "job"), (std::vector<int64_t>{5}));
  EXPECT_THROW(divisors_allowed(graph, 12, "job"), InputError);
}

/// Exported models, each with a loss that fits it.
class EstimateOfModel : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    PENSTOCK_MODEL(path, GetParam());
    graph_ = read_pt2(path);
  }
  static DeviceSpec device() {
    DeviceSpec spec = testing::round_spec();
    spec.matrix_flops[DType::bfloat16] = 2e4;
    return spec;
  }
  Graph graph_;
  Profile of(const DeviceSpec& spec) const {
    return estimate(graph_, job(8, Loss::cross_entropy), spec);
  }
};

TEST_P(EstimateOfModel, AddsUp) {
  for (const MicrobatchCosts& costs : of(device()).microbatches) {
    int end = 0;
    for (const UnitCost& unit : costs.units) {
      EXPECT_EQ(unit.begin, end);
      end = unit.end;
      double forward_s = 0;
      HeldSums held;
      for (int id = unit.begin; id < unit.end; ++id) {
        const OperatorCost& op = costs.operators[static_cast<size_t>(id)];
        const ActionTimes& times = op.times;
        // Both add the same pieces, in another order: a dozen roundings at most.
        EXPECT_NEAR(times.backward.mean_s,
                    times.backward_input.mean_s + times.backward_weight.mean_s,
                    16 * 0x1p-53 * times.backward.mean_s);
        forward_s += times.forward.mean_s;
        held.add(op.held);
      }
      EXPECT_EQ(unit.times.forward.mean_s, forward_s);
      EXPECT_EQ(unit.held.forward, held.forward);
      EXPECT_EQ(unit.held.backward, held.backward);
    }
    EXPECT_EQ(end, static_cast<int>(costs.operators.size()));
  }
}

TEST_P(EstimateOfModel, IsTheSameEveryTime) {
  const Profile once = of(device()), again = of(device());
  EXPECT_EQ(to_json(once, "p.json"), to_json(again, "p.json"));
}

TEST_P(EstimateOfModel, IsNeverSlowerOnAFasterDevice) {
  const DeviceSpec slow = device();
  DeviceSpec faster = slow;
  faster.bandwidth *= 2;
  DeviceSpec computing = slow;
  computing.matrix_flops[DType::float32] *= 2;
  const Profile before = of(slow);
  for (const Profile& after : {of(faster), of(computing)}) {
    ASSERT_EQ(after.microbatches.size(), before.microbatches.size());
    for (size_t size = 0; size < before.microbatches.size(); ++size)
      for (size_t id = 0; id < before.microbatches[size].operators.size(); ++id) {
        const ActionTimes& a = after.microbatches[size].operators[id].times;
        const ActionTimes& b = before.microbatches[size].operators[id].times;
        EXPECT_LE(a.forward.mean_s, b.forward.mean_s);
        EXPECT_LE(a.backward.mean_s, b.backward.mean_s);
      }
  }
}

TEST_P(EstimateOfModel, GrowsWithTheMicrobatch) {
  const Profile profile = of(device());
  for (size_t size = 1; size < profile.microbatches.size(); ++size) {
    const MicrobatchCosts &small = profile.microbatches[size - 1],
                          &large = profile.microbatches[size];
    for (size_t id = 0; id < small.operators.size(); ++id) {
      EXPECT_GE(large.operators[id].times.forward.mean_s, small.operators[id].times.forward.mean_s);
      EXPECT_GE(large.operators[id].held.forward.peak, small.operators[id].held.forward.peak);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EstimateOfModel,
                         ::testing::Values("gpt", "gpt-meta", "transformer-text", "everything",
                                           "unet", "pippy", "iterative", "parameters", "lstm",
                                           "outputs", "gpt2", "llama", "bert", "t5", "moe",
                                           "resnet", "vit"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace penstock
