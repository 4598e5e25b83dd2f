// A run that replays captured graphs trains as one that does not, on a device that overwrites
// everything that a replay does not write, and all memory that another graph may reuse.
#include <gmock/gmock.h>

#include "tests/backend/executor/capturing_device.hpp"
#include "tests/backend/executor/every_schedule.hpp"
#include "tests/models/models.hpp"

namespace penstock {
namespace {

using test::difference;
using test::plan_of;
using test::run_plan;
using test::RunResult;
using ::testing::HasSubstr;

constexpr int kSteps = 3;

RunResult replayed(const Plan& plan, test::CaptureOptions options = {},
                   CudaGraphs graphs = CudaGraphs::always, bool forward_only = false) {
  return run_plan(
      plan, kSteps, forward_only, make_in_process,
      [&] { return test::make_capturing_device(options); }, graphs);
}

void expect_on(const RunResult& run) {
  ASSERT_FALSE(run.replaying.empty());
  for (const auto& [rank, replaying] : run.replaying)
    EXPECT_TRUE(replaying.on) << rank << ": " << replaying.why_not;
}

void expect_same(const RunResult& run, const RunResult& reference) {
  EXPECT_EQ(run.losses, reference.losses);
  EXPECT_EQ(difference(run.first_gradients, reference.first_gradients), 0);
  EXPECT_EQ(difference(run.gradients, reference.gradients), 0);
  EXPECT_EQ(difference(run.parameters, reference.parameters), 0);
  ASSERT_EQ(run.buffers.size(), reference.buffers.size());
  for (size_t i = 0; i < run.buffers.size(); ++i)
    EXPECT_EQ(difference(run.buffers[i], reference.buffers[i]), 0) << "buffers";
}

void expect_replays_as_it_runs(const Plan& plan) {
  const RunResult reference = run_plan(plan, kSteps), run = replayed(plan);
  expect_on(run);
  expect_same(run, reference);
}

using ReplayOfEverySchedule = test::WithSchedule;

TEST_P(ReplayOfEverySchedule, TrainsAChain) {
  PENSTOCK_MODEL(model, test::chain.model);
  expect_replays_as_it_runs(split(test::chain, model, 4));
}

TEST_P(ReplayOfEverySchedule, TrainsAUNetWithItsBuffers) {
  PENSTOCK_MODEL(model, test::skips.model);
  expect_replays_as_it_runs(split(test::skips, model, 4));
}

TEST_P(ReplayOfEverySchedule, TrainsTiedWeights) {
  PENSTOCK_MODEL(model, test::tied.model);
  expect_replays_as_it_runs(split(test::tied, model, 4));
}

INSTANTIATE_TEST_SUITE_P(Schedules, ReplayOfEverySchedule, ::testing::ValuesIn(schedules()),
                         test::name_of);

class Replay : public ::testing::Test {
 protected:
  Plan plan(const std::string& model, const std::vector<std::string>& begins,
            const std::string& schedule = "1f1b", Loss loss = Loss::cross_entropy) {
    Plan plan = plan_of(model, test::random_data(folder_, model, loss), begins, 4, 2, schedule);
    plan.job.loss = loss;
    return plan;
  }
  test::TemporaryFolder folder_;
};

TEST_F(Replay, OfRecomputedSegments) {
  PENSTOCK_MODEL(model, "unet-f64");
  for (const Recompute& recompute : {Recompute{true, 0}, Recompute{false, 2}}) {
    Plan of = plan(model, {"", "middle"}, "1f1b", Loss::mse);
    for (StagePlan& stage : of.stages) stage.recompute = recompute;
    expect_replays_as_it_runs(of);
  }
}

/// Trains on the data that their export made.
TEST(Replays, OfKnownModels) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> models{
      {"gpt2-f64", {"", "transformer.h.1"}},
      {"llama-f64", {"", "model.layers.1"}},
      {"bert-f64", {"", "bert.encoder.layer.1"}},
      {"t5-f64", {"", "decoder.block.0"}},
      {"moe-f64", {"", "blocks.1"}},
      {"resnet-f64", {"", "groups.1"}},
      {"vit-f64", {"", "layers.1"}}};
  for (const auto& [name, begins] : models) {
    PENSTOCK_MODEL(model, name);
    const std::string data =
        std::filesystem::path(model).replace_extension(".data.safetensors").string();
    SCOPED_TRACE(name);
    expect_replays_as_it_runs(plan_of(model, data, begins, 4, 2, "1f1b"));
  }
}

TEST_F(Replay, WithReplicasClippingAndMomentum) {
  PENSTOCK_MODEL(model, "iterative-f64");
  Plan of = plan(model, {"", "iter_block@1", "iter_block@2"});
  of.data_parallel = 2;
  of.microbatches = 2;
  of.job.optimizer.clip_norm = 0.01;
  expect_replays_as_it_runs(of);
  of.shared_parameters = {{"iter_block.0.weight", "transmit"}};
  expect_replays_as_it_runs(of);
}

TEST_F(Replay, OfGradientsThatAreSummedInFloat32) {
  PENSTOCK_MODEL(model, "llama-bf16");
  Plan of = plan(model, {""});
  of.job.precision = Precision::bf16;
  expect_replays_as_it_runs(of);
}

TEST_F(Replay, OfForwards) {
  PENSTOCK_MODEL(model, "pippy-f64");
  const Plan of = plan(model, {"", "layer2"}, "gpipe");
  const RunResult reference = run_plan(of, kSteps, true);
  const RunResult run = replayed(of, {}, CudaGraphs::always, true);
  expect_on(run);
  ASSERT_FALSE(reference.outputs.empty());
  EXPECT_EQ(difference(run.outputs, reference.outputs), 0);
}

TEST_F(Replay, IsLeftOutWhereStepsDiffer) {
  PENSTOCK_MODEL(model, "transformer-dropout");
  const Plan of = plan(model, {""});
  const RunResult run = replayed(of);
  EXPECT_FALSE(run.replaying.at(0).on);
  EXPECT_THAT(run.replaying.at(0).why_not, HasSubstr("random numbers"));
  expect_same(run, run_plan(of, kSteps));
}

TEST_F(Replay, IsLeftOutWhereCaptureFailsAnywhere) {
  PENSTOCK_MODEL(model, "unet-f64");
  const Plan of = plan(model, {"", "middle"}, "zb-h1", Loss::mse);
  const RunResult reference = run_plan(of, kSteps);
  // A rank has 4 of each of F, I and W, and an end of the step.
  for (int most = 0; most < 13; ++most) {
    const RunResult run = replayed(of, {.max_captures = most});
    EXPECT_FALSE(run.replaying.at(0).on);
    EXPECT_THAT(run.replaying.at(0).why_not, HasSubstr("records no more"));
    expect_same(run, reference);
  }
  expect_on(replayed(of, {.max_captures = 13}));
}

TEST_F(Replay, IsKeptWhereItIsFaster) {
  PENSTOCK_MODEL(model, "pippy-f64");
  const Plan of = plan(model, {"", "layer2"});
  const RunResult reference = run_plan(of, kSteps);
  // Far below the time of issuing a step, so that the device is launch-bound.
  const RunResult faster =
      replayed(of, {.measured_s = {2e-9, 2e-9, 2e-9, 2e-9, 1e-9}}, CudaGraphs::automatic);
  expect_on(faster);
  EXPECT_EQ(faster.replaying.at(0).run_s, 2e-9);
  EXPECT_EQ(faster.replaying.at(0).replayed_s, 1e-9);
  expect_same(faster, reference);
  const RunResult slower =
      replayed(of, {.measured_s = {1e-9, 1e-9, 1e-9, 1e-9, 2e-9}}, CudaGraphs::automatic);
  EXPECT_FALSE(slower.replaying.at(0).on);
  EXPECT_THAT(slower.replaying.at(0).why_not, HasSubstr("longer"));
  expect_same(slower, reference);
  const RunResult ahead = replayed(of, {.measured_s = {1e9}}, CudaGraphs::automatic);
  EXPECT_FALSE(ahead.replaying.at(0).on);
  EXPECT_THAT(ahead.replaying.at(0).why_not, HasSubstr("ahead"));
  expect_same(ahead, reference);
  // A layer's momentum takes more than 8 bytes.
  const RunResult full =
      replayed(of, {.measured_s = {2e-9, 2e-9, 2e-9, 2e-9, 1e-9}, .available_bytes = 8},
               CudaGraphs::automatic);
  EXPECT_FALSE(full.replaying.at(0).on);
  EXPECT_THAT(full.replaying.at(0).why_not, HasSubstr("OPT"));
  expect_same(full, reference);
  EXPECT_FALSE(replayed(of, {}, CudaGraphs::never).replaying.at(0).on);
}

}  // namespace
}  // namespace penstock
