// A pipelined run equals the unsplit run of the same microbatches: losses, every gradient, the
// parameters after several steps of the optimizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/data/safetensors.hpp"
#include "backend/executor/executor.hpp"
#include "tests/backend/executor/equal_runs.hpp"
#include "tests/backend/executor/random_data.hpp"
#include "tests/backend/executor/run.hpp"
#include "tests/backend/support.hpp"
#include "tests/models/models.hpp"

namespace penstock {
namespace {

using test::difference;
using test::expect_equal;
using test::kFloat32;
using test::kFloat64;
using test::plan_of;
using test::run_plan;
using test::RunResult;
using test::vectors;

std::string text(const test::TemporaryFolder& folder) {
  std::string content;
  for (int i = 0; i < 2000; ++i) content += static_cast<char>((i * i + i / 7) % 64);
  return folder.write("text.txt", content);
}

TEST(Executor, ThreeStagesEqualTheUnsplitNetwork) {
  PENSTOCK_MODEL(model, "pippy-f64");
  const test::TemporaryFolder folder;
  const std::string data = vectors(folder, 32, at::kDouble);
  const RunResult whole = run_plan(plan_of(model, data, {""}, 4, 4), 3);
  EXPECT_EQ(whole.losses.size(), 3u);
  EXPECT_NE(whole.losses[0], whole.losses[2]);
  for (const char* schedule : {"gpipe", "1f1b"}) {
    expect_equal(run_plan(plan_of(model, data, {"", "layer1", "layer2"}, 4, 4, schedule), 3), whole,
                 kFloat64, schedule);
  }
}

TEST(Executor, MicrobatchesOfOneBatchEqualTheWholeBatch) {
  PENSTOCK_MODEL(model, "pippy-f64");
  const test::TemporaryFolder folder;
  const std::string data = vectors(folder, 32, at::kDouble);
  const RunResult whole = run_plan(plan_of(model, data, {""}, 1, 16), 3);
  expect_equal(run_plan(plan_of(model, data, {"", "layer2"}, 8, 2, "1f1b"), 3), whole, kFloat64,
               "8 x 2");
}

TEST(Executor, GloosSocketsEqualThreads) {
  PENSTOCK_MODEL(model, "pippy");
  const test::TemporaryFolder folder;
  const std::string data = vectors(folder, 512, at::kFloat);
  const RunResult whole = run_plan(plan_of(model, data, {""}, 4, 2), 2);
  expect_equal(run_plan(plan_of(model, data, {"", "layer1", "layer2"}, 4, 2, "1f1b"), 2, false,
                        test::make_gloo_threads),
               whole, kFloat32, "gloo");
}

TEST(Executor, SharedWeightsStayEqualBitForBit) {
  for (const auto& [name, tolerance, type] : {std::tuple{"iterative", kFloat32, at::kFloat},
                                              std::tuple{"iterative-f64", kFloat64, at::kDouble}}) {
    PENSTOCK_MODEL(model, name);
    const test::TemporaryFolder folder;
    const std::string data = vectors(folder, 32, type);
    const RunResult whole = run_plan(plan_of(model, data, {""}, 4, 2), 3);
    for (const auto make : {make_in_process, test::make_gloo_threads}) {
      const RunResult split = run_plan(
          plan_of(model, data, {"", "iter_block@1", "iter_block@2", "output_proj"}, 4, 2, "1f1b"),
          3, false, make);
      expect_equal(split, whole, tolerance, name);
      for (int rank : {1, 2}) {
        for (const auto& [parameter, tensor] : split.copies[0]) {
          EXPECT_TRUE(tensor.equal(split.copies[rank].at(parameter)))
              << parameter << " on rank " << rank;
        }
      }
      EXPECT_FALSE(split.copies[3].contains("iter_block.0.weight"));
    }
  }
}

TEST(Executor, TheTransformerTrainsOnTextAsUnsplit) {
  PENSTOCK_MODEL(model, "transformer-text-f64");
  const test::TemporaryFolder folder;
  Plan whole = plan_of(model, text(folder), {""}, 4, 2);
  Plan split = plan_of(model, text(folder), {"", "layers.1"}, 4, 2, "1f1b");
  for (Plan* plan : {&whole, &split}) {
    plan->job.sequence = 16;
    plan->job.optimizer.kind = OptimizerSpec::Kind::adamw;
    plan->job.optimizer.learning_rate = 1e-3;
    plan->job.optimizer.weight_decay = 0.01;
  }
  const RunResult reference = run_plan(whole, 3);
  EXPECT_LT(reference.losses[2], reference.losses[0]);
  expect_equal(run_plan(split, 3), reference, kFloat64, "1f1b");
}

TEST(Executor, DropoutDoesNotDependOnTheSplit) {
  PENSTOCK_MODEL(model, "transformer-text-dropout");
  const test::TemporaryFolder folder;
  const auto losses = [&](const std::vector<std::string>& begins) {
    Plan plan = plan_of(model, text(folder), begins, 4, 2, "1f1b");
    plan.job.sequence = 16;
    return run_plan(plan, 3).losses;
  };
  const std::vector<double> whole = losses({""});
  const std::vector<double> two = losses({"", "layers.1"});
  const std::vector<double> four = losses({"", "layers.0.multihead_attn", "layers.1", "norm"});
  for (size_t step = 0; step < 3; ++step) {
    EXPECT_NEAR(two[step], whole[step], kFloat32 * whole[step]);
    EXPECT_NEAR(four[step], whole[step], kFloat32 * whole[step]);
  }
  EXPECT_GT(std::abs(whole[1] - whole[0]), kFloat32);
}

TEST(Executor, StagesOfOneRankHandOverInMemory) {
  PENSTOCK_MODEL(model, "iterative-f64");
  const test::TemporaryFolder folder;
  const std::string data = vectors(folder, 32, at::kDouble);
  const RunResult whole = run_plan(plan_of(model, data, {""}, 2, 4), 3);
  // V placement: stages 0 and 3 on rank 0, stages 1 and 2 on rank 1, which share a parameter.
  Plan plan = plan_of(model, data, {"", "iter_block@1", "iter_block@2", "output_proj"}, 2, 4, "",
                      {0, 1, 1, 0});
  plan.program =
      folder.write("v.csv", "0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1\n1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n");
  const RunResult run = run_plan(plan, 3);
  expect_equal(run, whole, kFloat64, "V");
  EXPECT_THAT(run.actions, ::testing::Not(::testing::Contains(::testing::HasSubstr("SEND_F0:1"))));
  EXPECT_THAT(run.actions, ::testing::Contains("0SEND_F0"));
}

TEST(Executor, SplitBackwardEqualsWhole) {
  PENSTOCK_MODEL(model, "pippy-f64");
  const test::TemporaryFolder folder;
  const std::string data = vectors(folder, 32, at::kDouble);
  const RunResult whole = run_plan(plan_of(model, data, {""}, 2, 4), 3);
  Plan plan = plan_of(model, data, {"", "layer1"}, 2, 4, "");
  plan.program = folder.write("zb.csv", "0F0,0F1,0I0,0I1,0W0,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n");
  expect_equal(run_plan(plan, 3), whole, kFloat64, "I and W");
}

TEST(Executor, ReplicasEqualOnePipeline) {
  PENSTOCK_MODEL(model, "iterative-f64");
  const test::TemporaryFolder folder;
  const std::string data = vectors(folder, 32, at::kDouble);
  const RunResult whole = run_plan(plan_of(model, data, {""}, 4, 2), 3);
  Plan plan = plan_of(model, data, {"", "iter_block@2"}, 2, 2, "1f1b");
  plan.data_parallel = 2;
  plan.job.global_batch = 8;
  const RunResult run = run_plan(plan, 3);
  expect_equal(run, whole, kFloat64, "2 x 2");
  for (const auto& [name, tensor] : run.copies[0])
    EXPECT_TRUE(tensor.equal(run.copies[2].at(name)));
}

TEST(Executor, TiedWeightsOverAMiddleStageThatUpdatesBuffers) {
  PENSTOCK_MODEL(model, "everything-f64");
  const test::TemporaryFolder folder;
  const std::string data = test::random_data(folder, model, Loss::cross_entropy);
  const RunResult whole = run_plan(plan_of(model, data, {""}, 4, 2), 3);
  for (const char* schedule : {"gpipe", "1f1b"}) {
    const RunResult run = run_plan(plan_of(model, data, {"", "block", "norm"}, 4, 2, schedule), 3);
    expect_equal(run, whole, kFloat64, schedule);
    EXPECT_TRUE(run.copies[0].at("emb.weight").equal(run.copies[2].at("emb.weight")));
  }
}

TEST(Executor, SkipConnectionsOfAUNetOverFiveStages) {
  PENSTOCK_MODEL(model, "unet-f64");
  const test::TemporaryFolder folder;
  const std::string data = test::random_data(folder, model, Loss::mse);
  Plan whole = plan_of(model, data, {""}, 4, 2);
  Plan split = plan_of(model, data, {"", "down.1", "middle", "up.0", "up.1"}, 4, 2, "1f1b");
  whole.job.loss = split.job.loss = Loss::mse;
  const RunResult run = run_plan(split, 3);
  expect_equal(run, run_plan(whole, 3), kFloat64, "unet");
  EXPECT_THAT(run.actions, ::testing::Contains("0SEND_F0:4"));
}

TEST(Executor, ForwardsGiveOutputsInTheOrderOfTheSamples) {
  PENSTOCK_MODEL(model, "pippy-f64");
  const test::TemporaryFolder folder;
  const std::string data = vectors(folder, 32, at::kDouble);
  const RunResult whole = run_plan(plan_of(model, data, {""}, 1, 16), 1, true);
  const RunResult split = run_plan(plan_of(model, data, {"", "layer1", "layer2"}, 4, 4), 1, true);
  ASSERT_EQ(whole.outputs.size(), 1u);
  EXPECT_EQ(whole.outputs.begin()->second.sizes(), (at::IntArrayRef{16, 10}));
  EXPECT_LE(difference(split.outputs, whole.outputs), kFloat64);
}

TEST(Executor, TheDivisorIsTheNumberOfCountedTargets) {
  PENSTOCK_MODEL(model, "pippy-f64");
  const test::TemporaryFolder folder;
  at::manual_seed(3);
  at::Tensor target = at::randint(10, {24}, at::kLong);
  target.slice(0, 0, 3).fill_(kIgnoredTarget);  // all but one of the first microbatch
  target[9] = kIgnoredTarget;
  const std::string path = folder / "data.safetensors";
  write_tensors(path, {{"x", at::randn({24, 32}, at::kDouble)}, {"target", target}});
  const RunResult whole = run_plan(plan_of(model, path, {""}, 1, 16), 2);
  expect_equal(run_plan(plan_of(model, path, {"", "layer1"}, 4, 4), 2), whole, kFloat64,
               "ignored targets");
}

TEST(Executor, ALossThatIsNotFiniteEndsAllRanksBeforeTheOptimizer) {
  PENSTOCK_MODEL(model, "pippy-f64");
  const test::TemporaryFolder folder;
  at::Tensor x = at::zeros({8, 32}, at::kDouble);
  x[7][0] = std::numeric_limits<double>::infinity();
  const std::string path = folder / "data.safetensors";
  write_tensors(path, {{"x", x}, {"target", at::zeros({8}, at::kLong)}});
  const Plan plan = plan_of(model, path, {"", "layer1"}, 2, 2);  // step 1 has the infinite sample
  const Graph graph = read_pt2(model);
  const Analysis analysis = analyse(graph);
  const Slicing slicing = slice(plan, graph, analysis);
  const Program program = lowered_program(plan, slicing);
  const Data data(plan.job, graph);
  std::atomic<int> refused = 0;
  test::run_ranks(make_in_process(2), [&](Communicator& communicator) {
    Executor executor({plan, graph, analysis, slicing, program}, data, communicator);
    executor.run_step(0);
    const at::Tensor before = executor.store().tensor(*executor.store().indices().begin()).clone();
    const std::string message = test::message_of<LossNotFinite>([&] { executor.run_step(1); });
    EXPECT_THAT(message, ::testing::HasSubstr("the loss of step 2 is"));
    EXPECT_TRUE(executor.store().tensor(*executor.store().indices().begin()).equal(before));
    if (!message.empty()) ++refused;
  });
  EXPECT_EQ(refused, 2);
}

}  // namespace
}  // namespace penstock
