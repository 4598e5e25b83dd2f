// Plans whose replicas share out the optimizer's state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/pt2/pt2.hpp"
#include "planner/plan.hpp"
#include "simulator/costs/plan_costs.hpp"
#include "tests/models/models.hpp"
#include "tests/pipeline/support.hpp"
#include "tests/planner/synthetic_profile.hpp"

namespace penstock::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Replicated {
  TemporaryFolder folder;
  Graph model;
  Profile profile;

  explicit Replicated(const std::string& path)
      : model(read_pt2(path)),
        profile(
            written(synthetic_profile(model, {1, 2, 4}, 8, {}), folder.path() / "profile.json")) {}

  Planned plan(std::optional<OptimizerState> state, PlanRequest request) const {
    request.optimizer_state = state;
    return make_plan(profile, model, nullptr, request);
  }
};

const PlanRequest two_replicas{.ranks = 2, .schedules = {"1f1b"}, .data_parallel = 2};

int64_t most_memory(const Planned& planned) {
  return *std::ranges::max_element(planned.simulation.peak_memory_bytes);
}

TEST(PlanOptimizerState, OneReplicaHasNobodyToShareItOutTo) {
  PENSTOCK_MODEL(path, "gpt2");
  const Replicated of(path);
  const Planned planned = of.plan(OptimizerState::sharded, {.ranks = 2, .schedules = {"1f1b"}});
  for (const int64_t replicas : {1, 2}) {
    const auto row = std::ranges::find(planned.searched, replicas, &Searched::data_parallel);
    ASSERT_NE(row, planned.searched.end());
    EXPECT_EQ(row->optimizer_state == OptimizerState::sharded, replicas > 1);
  }
}

TEST(PlanOptimizerState, ShardedItFitsWhereReplicatedItDoesNot) {
  PENSTOCK_MODEL(path, "gpt2");
  const Replicated of(path);
  PlanRequest request = two_replicas;
  request.objective = PlanObjective::memory;
  const int64_t all = most_memory(of.plan(OptimizerState::replicated, request));
  const int64_t parts = most_memory(of.plan(OptimizerState::sharded, request));
  ASSERT_LT(parts, all);
  request = two_replicas;
  request.memory_bytes = (parts + all) / 2;
  EXPECT_THAT(input_error([&] { of.plan(OptimizerState::replicated, request); }),
              AllOf(HasSubstr("no plan fits"),
                    HasSubstr("(--memory), or with --optimizer-state sharded.")));
  for (const auto state : {std::optional(OptimizerState::sharded), std::optional<OptimizerState>()})
    EXPECT_EQ(of.plan(state, request).plan.optimizer_state, OptimizerState::sharded);
  request.memory_bytes = parts - 1;
  const auto error = [&](std::optional<OptimizerState> state) {
    return input_error([&] { of.plan(state, request); });
  };
  for (const auto state :
       {std::optional(OptimizerState::replicated), std::optional<OptimizerState>()})
    EXPECT_THAT(error(state), AllOf(HasSubstr("no plan fits"),
                                    Not(HasSubstr("(--memory), or with --optimizer-state"))));
}

TEST(PlanOptimizerState, TheBetterOfBothIsTakenAndTheBoundIsOfBoth) {
  PENSTOCK_MODEL(path, "gpt2");
  const Replicated of(path);
  const Planned all = of.plan(OptimizerState::replicated, two_replicas);
  const Planned parts = of.plan(OptimizerState::sharded, two_replicas);
  ASSERT_NE(all.plan.prediction->step_s, parts.plan.prediction->step_s);
  const Planned either = of.plan(std::nullopt, two_replicas);
  EXPECT_EQ(either.plan.prediction->step_s,
            std::min(all.plan.prediction->step_s, parts.plan.prediction->step_s));
  EXPECT_EQ(either.lower_bound_s, std::min(all.lower_bound_s, parts.lower_bound_s));
}

TEST(PlanOptimizerState, APlansFileSimulatesAsItWasPlanned) {
  PENSTOCK_MODEL(path, "gpt2");
  const Replicated of(path);
  const Planned planned = of.plan(OptimizerState::sharded, two_replicas);
  const auto file = of.folder.path() / "plan.yaml";
  const std::string text = to_yaml(planned.plan, file);
  EXPECT_THAT(text, HasSubstr("optimizer_state: sharded"));
  const Plan read = parse_plan(text, file);
  const Slicing slicing = slice(read, of.model, analyse(of.model));
  const Simulation run =
      simulate(lowered_program(read, slicing), plan_costs(read, of.model, slicing, of.profile),
               plan_network(of.profile, nullptr), {});
  EXPECT_EQ(run.makespan_s, planned.plan.prediction->step_s);
  EXPECT_EQ(run.peak_memory_bytes, planned.plan.prediction->peak_memory_bytes);
}

TEST(PlanOptimizerState, OneReplicaHasNothingToShare) {
  PENSTOCK_MODEL(path, "gpt2");
  const Replicated of(path);
  const PlanRequest one{.ranks = 2, .schedules = {"1f1b"}, .data_parallel = 1};
  EXPECT_THAT(input_error([&] { of.plan(OptimizerState::sharded, one); }),
              HasSubstr("--optimizer-state: it is sharded over replicas, and there is to be one"));
  EXPECT_EQ(of.plan(std::nullopt, one).plan.optimizer_state, OptimizerState::replicated);
}

}  // namespace
}  // namespace penstock::test
