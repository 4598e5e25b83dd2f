// Estimates of single operators worked by hand, and what holds of every estimate.
#include "planner/estimate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "estimate_support.hpp"
#include "graph/error.hpp"
#include "graph/pt2.hpp"
#include "planner/estimate_sizes.hpp"
#include "planner/estimate_work.hpp"
#include "tests/models/models.hpp"

namespace penstock {
namespace {

using testing::batch;
using testing::GraphBuilder;

/// FLOPs and bytes of each piece of work.
std::vector<std::pair<double, double>> amounts(const std::vector<Work>& work) {
  std::vector<std::pair<double, double>> result;
  result.reserve(work.size());
  for (const Work& piece : work) result.emplace_back(piece.flops, piece.bytes);
  return result;
}
using Amounts = std::vector<std::pair<double, double>>;

OperatorWork work(const GraphBuilder& b, OperatorId id, int64_t size) {
  const EstimateModel model(b.graph);
  return work_of(model, model.op(id), size, true);
}

/// x [batch, 4] -> first [batch, 8] -> second [batch, 4].
GraphBuilder two_linears() {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 4});
  const auto w1 = b.parameter("w1", {8, 4}), b1 = b.parameter("b1", {8});
  const auto h = b.op("aten::linear", {x, w1, b1}, {batch, 8}, {"first"});
  b.named({"input", "weight", "bias"});
  const auto w2 = b.parameter("w2", {4, 8});
  b.output(b.op("aten::linear", {h, w2}, {batch, 4}, {"second"}));
  b.named({"input", "weight"});
  return b;
}

TEST(EstimatedLinear, MultipliesOnceForwardAndOnceForEachGradient) {
  const OperatorWork second = work(two_linears(), 1, 2);
  // 2 x 2 x 4 x 8 FLOPs; h 64, w2 128, result 32 bytes.
  EXPECT_EQ(amounts(second.forward), (Amounts{{128, 224}}));
  EXPECT_EQ(amounts(second.input), (Amounts{{128, 224}}));
  // The gradient, and adding it to the stored one: 3 x 128 bytes.
  EXPECT_EQ(amounts(second.weight), (Amounts{{128, 224}, {0, 384}}));
}

TEST(EstimatedLinear, OnTheModelsInputHasNoInputGradientAndItsBiasASum) {
  const OperatorWork first = work(two_linears(), 0, 2);
  // 2 x 2 x 8 x 4 and 16 additions; x 32, w1 128, b1 32, result 64 bytes.
  EXPECT_EQ(amounts(first.forward), (Amounts{{144, 256}}));
  EXPECT_TRUE(first.input.empty());
  EXPECT_EQ(amounts(first.weight), (Amounts{{144, 224}, {16, 96}, {0, 480}}));
}

TEST(EstimatedLinear, TakesTheLongerOfComputingAndMovingAndALaunch) {
  const DeviceSpec device = testing::round_spec();  // products reach half of everything
  EXPECT_DOUBLE_EQ(seconds(device, {{OperatorClass::gemm, DType::float32, 128, 224}}),
                   224 / 500.0 + 0.25);
  EXPECT_DOUBLE_EQ(seconds(device, {{OperatorClass::gemm, DType::float32, 1e5, 224}}),
                   1e5 / 5e3 + 0.25);
  EXPECT_EQ(seconds(device, {}), 0);
}

TEST(EstimatedRecurrence, GivesEachMatrixItsPartOfTheProducts) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 4});
  const auto w = b.parameter("w", {8, 4}), u = b.parameter("u", {8, 12});
  b.output(b.op("aten::lstm", {x, w, u}, {batch, 2}));
  const OperatorWork lstm = work(b, 0, 1);
  ASSERT_EQ(lstm.forward.size(), 1U);
  EXPECT_EQ(lstm.weight[0].flops + lstm.weight[1].flops, lstm.forward[0].flops);
  EXPECT_EQ(lstm.weight[1].flops, 3 * lstm.weight[0].flops);
}

TEST(EstimatedAttention, MultipliesTwoAndAHalfTimesAsMuchBackwardAndHasNoWeights) {
  GraphBuilder b;
  const testing::Shape shape{batch, 2, 4, 8};
  const auto x = b.input("x", shape);
  std::vector<ValueId> qkv;
  for (const char* name : {"q", "k", "v"})
    qkv.push_back(b.op("aten::mul", {x, b.parameter(name, {8})}, shape));
  b.output(b.op("aten::scaled_dot_product_attention", qkv, shape));
  b.named({"query", "key", "value"});
  const OperatorWork attention = work(b, 3, 3);
  // Each of the four tensors is 3 x 2 x 4 x 8 floats, 768 bytes; 4 x 3 x 2 x 4 x 4 x 8 FLOPs.
  EXPECT_EQ(amounts(attention.forward), (Amounts{{3072, 4 * 768}}));
  // Reads the result's gradient, the four and 24 log-sum-exps; moves as much again for the rest.
  EXPECT_EQ(amounts(attention.input), (Amounts{{7680, 768 + 2 * (4 * 768 + 24 * 4)}}));
  EXPECT_TRUE(attention.weight.empty());
  EXPECT_EQ(attention.forward.front().kind, OperatorClass::attention);
}

TEST(EstimatedLayerNorm, ReadsItsInputAndStatisticsAgain) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 8});
  const auto h = b.op("aten::mul", {x, b.parameter("s", {8})}, {batch, 8});
  const auto w = b.parameter("w", {8}), shift = b.parameter("b", {8});
  b.output(b.op("aten::layer_norm", {h, w, shift}, {batch, 8}));
  b.named({"input", "weight", "bias"},
          {{"normalized_shape", std::vector<Expression>{Expression(8)}}});
  const OperatorWork norm = work(b, 1, 4);
  EXPECT_EQ(amounts(norm.forward), (Amounts{{256, 128 + 32 + 32 + 128}}));
  // Gradient 128, input 128, mean and deviation of four rows 32, own gradient 128.
  EXPECT_EQ(amounts(norm.input), (Amounts{{256, 416}}));
  // Once for weight and bias; both are added to the stored ones.
  EXPECT_EQ(amounts(norm.weight), (Amounts{{256, 128 + 160 + 32}, {0, 3 * 64}}));
}

TEST(EstimatedEmbedding, ReadsTheRowsItReturnsAndClearsAWholeTableBackward) {
  GraphBuilder b;
  const auto tokens = b.input("tokens", {batch, 3}, DType::int64);
  const auto table = b.parameter("table", {10, 4});
  b.output(b.op("aten::embedding", {table, tokens}, {batch, 3, 4}));
  const OperatorWork embedding = work(b, 0, 2);
  EXPECT_EQ(amounts(embedding.forward), (Amounts{{0, 96 + 48 + 96}}));
  EXPECT_TRUE(embedding.input.empty());
  EXPECT_EQ(amounts(embedding.weight), (Amounts{{0, 160 + 3 * 96}, {0, 3 * 160}}));
}

TEST(EstimatedView, CostsNothing) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 8});
  const auto h = b.op("aten::mul", {x, b.parameter("s", {8})}, {batch, 8});
  b.output(b.op("aten::view", {h}, {batch, 2, 4}));
  const OperatorWork view = work(b, 1, 4);
  EXPECT_TRUE(view.forward.empty() && view.input.empty() && view.weight.empty());
}

TEST(EstimatedSum, OfTwoBranchesPassesItsGradientOnAndTheirRootAddsThemUp) {
  GraphBuilder b;
  const auto x = b.input("x", {batch, 8});
  const auto h = b.op("aten::mul", {x, b.parameter("s", {8})}, {batch, 8});
  const auto branch = b.op("aten::relu", {h}, {batch, 8});
  b.output(b.op("aten::add", {h, branch}, {batch, 8}));
  EXPECT_TRUE(work(b, 2, 1).input.empty());
  // Gradient, saved result and own gradient of 8 floats each.
  EXPECT_EQ(amounts(work(b, 1, 1).input), (Amounts{{8, 96}}));
  EXPECT_EQ(amounts(work(b, 0, 1).input), (Amounts{{8, 96}}));  // one addition
}

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
      int64_t held = 0, transient = 0;
      for (int id = unit.begin; id < unit.end; ++id) {
        const OperatorCost& op = costs.operators[static_cast<size_t>(id)];
        const ActionTimes& times = op.times;
        // Both add the same pieces, in another order: a dozen roundings at most.
        EXPECT_NEAR(times.backward.mean_s,
                    times.backward_input.mean_s + times.backward_weight.mean_s,
                    16 * 0x1p-53 * times.backward.mean_s);
        forward_s += times.forward.mean_s;
        held += op.held.after_forward;
        transient = std::max(transient, op.held.transient_backward);
        for (const int64_t bytes : {op.held.after_forward, op.held.after_input, op.held.output,
                                    op.held.transient_forward, op.held.transient_backward})
          EXPECT_GE(bytes, 0) << op.name;
      }
      EXPECT_EQ(unit.times.forward.mean_s, forward_s);
      EXPECT_EQ(unit.held.after_forward, held);
      EXPECT_EQ(unit.held.transient_backward, transient);
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
      EXPECT_GE(large.operators[id].held.after_forward, small.operators[id].held.after_forward);
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
