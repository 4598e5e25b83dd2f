// Ranks that share out the optimizer's state train to the bits of ranks that each have all of it.
#include "backend/executor/update/optimizer_shards.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "backend/executor/executor.hpp"
#include "graph/pt2/pt2.hpp"
#include "tests/backend/executor/random_data.hpp"
#include "tests/backend/executor/run.hpp"
#include "tests/models/models.hpp"

namespace penstock {
namespace {

using test::plan_of;
using test::run_plan;
using test::RunResult;

class OptimizerShardsTest : public ::testing::Test {
 protected:
  Plan plan(const std::string& model, const std::vector<std::string>& begins, int replicas,
            Loss loss = Loss::cross_entropy) {
    Plan plan = plan_of(model, test::random_data(folder_, model, loss), begins, 2, 2, "1f1b");
    plan.job.loss = loss;
    plan.data_parallel = replicas;
    plan.job.global_batch *= replicas;
    plan.all_reduce.bucket_bytes = 4096;  // several of a stage
    return plan;
  }

 private:
  test::TemporaryFolder folder_;
};

Plan with_adamw(Plan plan) {
  plan.job.optimizer.kind = OptimizerSpec::Kind::adamw;
  plan.job.optimizer.weight_decay = 0.1;
  return plan;
}

Plan sharded(Plan plan) {
  plan.optimizer_state = OptimizerState::sharded;
  return plan;
}

void expect_equal_copies(const RunResult& run) {
  for (const test::Tensors& copies : run.copies) {
    for (const auto& [name, tensor] : copies)
      EXPECT_TRUE(tensor.equal(run.parameters.at(name))) << name;
  }
}

void expect_same_bits(const Plan& plan, test::Communicators (*make)(int)) {
  const RunResult whole = run_plan(plan, 3, false, make);
  const RunResult parts = run_plan(sharded(plan), 3, false, make);
  EXPECT_EQ(parts.losses, whole.losses);
  EXPECT_EQ(test::difference(parts.gradients, whole.gradients), 0);
  EXPECT_EQ(test::difference(parts.parameters, whole.parameters), 0);
  expect_equal_copies(parts);
}

TEST_F(OptimizerShardsTest, TrainToTheSameBits) {
  PENSTOCK_MODEL(model, "pippy-f64");
  const Plan two = plan(model, {"", "layer1"}, 2);
  for (auto* make : {make_in_process, test::make_gloo_threads, test::make_local_threads}) {
    expect_same_bits(two, make);
    expect_same_bits(with_adamw(two), make);
  }
}

TEST_F(OptimizerShardsTest, TrainThreeReplicasToTheSameBits) {
  PENSTOCK_MODEL(model, "pippy-f64");
  for (auto* make : {make_in_process, test::make_local_threads})
    expect_same_bits(with_adamw(plan(model, {"", "layer1"}, 3)), make);
}

TEST_F(OptimizerShardsTest, TrainWithoutOverlapToTheSameBits) {
  PENSTOCK_MODEL(model, "pippy-f64");
  Plan behind = with_adamw(plan(model, {"", "layer1"}, 2));
  behind.all_reduce.overlap = false;
  expect_same_bits(behind, make_in_process);
}

TEST_F(OptimizerShardsTest, TrainTiedWeightsOnAllTheirRanksToTheSameBits) {
  PENSTOCK_MODEL(model, "gpt2-f64");
  const Plan tied = with_adamw(plan(model, {"", "transformer.h.1"}, 2));
  for (auto* make : {make_in_process, test::make_local_threads}) expect_same_bits(tied, make);
}

TEST_F(OptimizerShardsTest, TrainTransmittedWeightsToTheSameBits) {
  PENSTOCK_MODEL(model, "iterative-f64");
  Plan transmitted = with_adamw(plan(model, {"", "iter_block@1"}, 2));
  transmitted.shared_parameters = {{"iter_block.0.weight", "transmit"}};
  expect_same_bits(transmitted, make_in_process);
}

TEST_F(OptimizerShardsTest, ClipByTheSameNormButForRounding) {
  PENSTOCK_MODEL(model, "gpt2-f64");
  Plan clipped = with_adamw(plan(model, {"", "transformer.h.1"}, 2));
  clipped.job.optimizer.clip_norm = 0.1;
  const RunResult whole = run_plan(clipped, 3);
  const RunResult parts = run_plan(sharded(clipped), 3);
  EXPECT_LT(test::difference(parts.gradients, whole.gradients), 1e-12);
  EXPECT_LT(test::difference(parts.parameters, whole.parameters), 1e-12);
  expect_equal_copies(parts);
}

TEST_F(OptimizerShardsTest, StepTheirPartsOfMasterCopies) {
  PENSTOCK_MODEL(model, "llama-bf16");
  Plan mixed = with_adamw(plan(model, {""}, 2));
  mixed.job.precision = Precision::bf16;
  expect_same_bits(mixed, make_in_process);
}

TEST_F(OptimizerShardsTest, HaveEachElementsStateOnce) {
  PENSTOCK_MODEL(model, "pippy-f64");
  const Plan shares = sharded(with_adamw(plan(model, {""}, 3)));
  const Graph graph = read_pt2(model);
  const Analysis analysis = analyse(graph);
  const Slicing slicing = slice(shares, graph, analysis);
  const Program program = lowered_program(shares, slicing);
  const Data data(shares.job, graph, true);
  std::vector<std::map<int, int64_t>> held(3);
  test::run_ranks(make_in_process(3), [&](Communicator& communicator) {
    Executor executor({shares, graph, analysis, slicing, program}, data, communicator);
    executor.run_step(0);
    for (const auto& [index, state] : executor.optimizer().states()) {
      EXPECT_EQ(state.steps, 1);
      EXPECT_EQ(state.tensors.size(), 2U);
      held[static_cast<size_t>(communicator.rank())][index] = state.tensors.at("exp_avg").numel();
    }
  });
  for (size_t index = 0; index < graph.tensors.size(); ++index) {
    const auto tensor = static_cast<int>(index);
    if (!graph.tensors[index].requires_grad) continue;
    EXPECT_EQ(held[0][tensor] + held[1][tensor] + held[2][tensor], graph.tensors[index].elements());
  }
}

}  // namespace
}  // namespace penstock
