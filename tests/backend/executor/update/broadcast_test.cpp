// Shared parameters that their owner updates and broadcasts.
#include <gtest/gtest.h>

#include "tests/backend/executor/equal_runs.hpp"
#include "tests/models/models.hpp"

namespace penstock::test {
namespace {

/// The plan of an unrolled loop whose shared block is broadcast.
Plan broadcasting(Plan plan) {
  for (const char* name : {"iter_block.0.weight", "iter_block.0.bias"})
    plan.shared_parameters[name] = "transmit";
  return plan;
}

TEST(Broadcast, WeightsAreSteppedByTheirOwnerAndEqualEverywhere) {
  PENSTOCK_MODEL(model, "iterative-f64");
  const TemporaryFolder folder;
  const std::string data = vectors(folder, 32, at::kDouble);
  const std::vector<std::string> begins{"", "iter_block@1", "iter_block@2", "output_proj"};
  for (const int replicas : {1, 2}) {
    Plan alone = plan_of(model, data, {""}, int64_t{4} * replicas, 2);
    Plan plan = broadcasting(plan_of(model, data, begins, 4, 2, "1f1b"));
    plan.data_parallel = replicas;
    plan.job.global_batch *= replicas;
    for (Plan* each : {&alone, &plan}) each->job.optimizer.clip_norm = 0.1;
    const RunResult whole = run_plan(alone, 3);
    for (const auto make : {make_in_process, make_gloo_threads}) {
      const RunResult split = run_plan(plan, 3, false, make);
      expect_equal(split, whole, kFloat64, "broadcast");
      for (int rank = 0; rank < 4 * replicas; ++rank) {
        const bool holder = rank % 4 < 3;
        ASSERT_EQ(split.copies[rank].contains("iter_block.0.weight"), holder);
        EXPECT_EQ(split.stepped[rank].contains("iter_block.0.weight"), rank % 4 == 0);
        if (!holder) continue;
        for (const char* name : {"iter_block.0.weight", "iter_block.0.bias"})
          EXPECT_TRUE(split.copies[rank].at(name).equal(split.copies[0].at(name))) << rank;
      }
    }
  }
}

/// Stages 0 and 3 on rank 0, stages 1 and 2 on rank 1: both have two stages of the loop.
TEST(Broadcast, ARankOfSeveralStagesSendsTheirSum) {
  PENSTOCK_MODEL(model, "iterative-f64");
  const TemporaryFolder folder;
  const std::string data = vectors(folder, 32, at::kDouble);
  const RunResult whole = run_plan(plan_of(model, data, {""}, 4, 2), 3);
  const std::vector<std::string> begins{"", "iter_block@1", "iter_block@2", "output_proj"};
  const Plan plan = broadcasting(plan_of(model, data, begins, 4, 2, "dualpipev", {0, 1, 1, 0}));
  const RunResult split = run_plan(plan, 3);
  expect_equal(split, whole, kFloat64, "dualpipev");
  EXPECT_FALSE(split.stepped[1].contains("iter_block.0.weight"));
}

}  // namespace
}  // namespace penstock::test
