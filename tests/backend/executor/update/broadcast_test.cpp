// Shared parameters that their owner updates and broadcasts.
#include <gtest/gtest.h>

#include "graph/pt2/pt2.hpp"
#include "pipeline/plan/tensor_parallel.hpp"
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

/// Two groups of two; replicas share out the optimizer's state.
Plan of_groups(const std::string& model, const std::string& data, const sharding::Layout& layout,
               int replicas) {
  Plan plan = broadcasting(plan_of(model, data, {"", "iter_block@1"}, 4, 2, "1f1b"));
  plan.tensor_parallel = 2;
  plan.sharding.parameters = {{"iter_block.0.weight", layout}};
  plan.data_parallel = replicas;
  plan.job.global_batch *= replicas;
  if (replicas > 1) plan.optimizer_state = OptimizerState::sharded;
  return plan;
}

/// Each part has its part, or the whole with all of its gradient or a term of it.
TEST(Broadcast, PartsOfTensorGroupsSendToEqualParts) {
  PENSTOCK_MODEL(model, "iterative-f64");
  const TemporaryFolder folder;
  const std::string data = vectors(folder, 32, at::kDouble), weight = "iter_block.0.weight";
  using sharding::Layout;
  for (const Layout& layout :
       {Layout::split(0), Layout::split(1), Layout::identical(), Layout::replicated()}) {
    for (const int replicas : {1, 2}) {
      SCOPED_TRACE(layout.str() + ", replicas: " + std::to_string(replicas));
      Plan alone = plan_of(model, data, {""}, int64_t{4} * replicas, 2);
      Plan plan = of_groups(model, data, layout, replicas);
      const PlannedModel planned = planned_model(plan, read_pt2(model));
      ASSERT_EQ(planned.group->layouts[planned.graph.tensor_by_name().at(weight)], layout);
      for (Plan* each : {&alone, &plan}) {
        each->job.optimizer.kind = OptimizerSpec::Kind::adamw;
        each->job.optimizer.clip_norm = 0.1;
      }
      const RunResult whole = run_plan(alone, 3);
      for (const auto make : {make_in_process, make_gloo_threads}) {
        const RunResult run = run_plan(plan, 3, false, make);
        expect_equal(run, whole, kFloat64, "groups");
        for (int rank = 0; rank < plan.all_ranks(); ++rank)
          EXPECT_EQ(run.stepped[rank].contains(weight), plan.place_of(rank).rank == 0) << rank;
        for (const Tensors& copies : run.copies) {
          for (const auto& [name, tensor] : copies)
            EXPECT_TRUE(tensor.equal(run.parameters.at(name))) << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace penstock::test
