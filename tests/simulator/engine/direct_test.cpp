// Running compute actions as they are gives what the engine gives for the lowered program.
#include "simulator/engine/direct.hpp"

#include <gmock/gmock.h>

#include <random>

#include "base/error.hpp"
#include "pipeline/program/schedule.hpp"
#include "simulator/engine/simulate.hpp"

namespace penstock {
namespace {

/// A chain with some skips, of which some carry no gradient.
std::vector<Flow> random_flows(int stages, std::mt19937& random) {
  std::vector<Flow> flows = chain_flows(stages);
  for (int from = 0; from + 2 < stages; ++from) {
    const int to = from + 2 + static_cast<int>(random() % 3);
    if (to < stages && random() % 3 == 0) flows.push_back({from, to, random() % 3 != 0});
  }
  return flows;
}

Costs random_costs(int stages, const std::vector<Flow>& flows, std::mt19937& random) {
  std::uniform_real_distribution<double> time_s(0.1, 3);
  Costs costs;
  for (int stage = 0; stage < stages; ++stage) {
    StageCosts each{.forward_s = time_s(random), .backward_s = time_s(random)};
    each.backward_input_s = time_s(random);
    each.backward_weight_s = time_s(random);
    each.first_forward_s = time_s(random);
    each.saved_bytes = static_cast<int64_t>(random() % 1000);
    each.saved_weight_bytes = static_cast<int64_t>(random() % 1000);
    if (random() % 3 == 0) {  // a host that runs ahead of its device
      each.forward_host_s = time_s(random);
      each.backward_host_s = time_s(random);
      each.backward_input_host_s = time_s(random);
      each.backward_weight_host_s = time_s(random);
    }
    costs.stages.push_back(each);
  }
  for (const Flow& flow : flows) {
    const auto forward = static_cast<int64_t>(random() % 1000);
    const auto backward = static_cast<int64_t>(random() % 1000);
    costs.flows.push_back({flow.from, flow.to, forward, backward});
  }
  return costs;
}

TEST(Direct, GivesTheSameNumbersAsTheEngineForEverySchedule) {
  std::mt19937 random(7);
  int compared = 0;
  for (const Schedule& schedule : schedules()) {
    for (int i = 0; i < 40; ++i) {
      const ScheduleShape shape{
          1 + static_cast<int>(random() % 5),
          schedule.stages_per_rank ? schedule.stages_per_rank : 1 + static_cast<int>(random() % 3),
          1 + static_cast<int>(random() % 12)};
      Program program;
      try {
        program = schedule.generate(shape);
      } catch (const InputError&) {
        continue;
      }
      const std::vector<Flow> flows = random_flows(program.stage_count(), random);
      const Costs costs = random_costs(program.stage_count(), flows, random);
      const Link link{.latency_s = 0.1 * static_cast<double>(random() % 3),
                      .bandwidth = 1000,
                      .propagation_s = 0.2 * static_cast<double>(random() % 2)};
      ASSERT_TRUE(runs_directly(program, link));
      const Simulation direct = simulate_compute(program, flows, costs, link, {false, false});
      const Simulation engine = simulate(lower(program, flows), costs, link, {false, false});
      // The same sums in the same order: equal to the last bit.
      EXPECT_EQ(direct.makespan_s, engine.makespan_s) << schedule.name;
      EXPECT_EQ(direct.bubble, engine.bubble);
      EXPECT_EQ(direct.busy_s, engine.busy_s);
      EXPECT_EQ(direct.rank_start_s, engine.rank_start_s);
      EXPECT_EQ(direct.rank_end_s, engine.rank_end_s);
      EXPECT_EQ(direct.peak_activations, engine.peak_activations);
      EXPECT_EQ(direct.peak_memory_bytes, engine.peak_memory_bytes);
      EXPECT_EQ(direct.actions, engine.actions);
      ++compared;
    }
  }
  EXPECT_GE(compared, 200);
}

TEST(Direct, ReportsADeadlockAsLoweringDoes) {
  // Rank 1 begins with microbatch 1, which rank 0 runs after the backward of microbatch 0.
  const Program program = parse_csv("0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1", "p.csv");
  const std::vector<Flow> flows = chain_flows(2);
  const Costs costs = equal_stages(2, {.forward_s = 1, .backward_s = 1}, flows, 0);
  EXPECT_THAT(
      [&] {
        simulate_compute(program, flows, costs, {}, {false, false});
      },
      ::testing::ThrowsMessage<InputError>(::testing::HasSubstr("deadlock")));
}

TEST(Direct, LeavesLinksThatMakeSomebodyWaitToTheEngine) {
  const Program program = one_f_one_b.generate({.ranks = 2, .microbatches = 2});
  EXPECT_TRUE(runs_directly(program, {}));
  EXPECT_FALSE(runs_directly(program, Link{.mode = SendMode::posted}));
  EXPECT_FALSE(runs_directly(program, Link{.mode = SendMode::rendezvous}));
  EXPECT_FALSE(runs_directly(program, Link{.sender_s_per_byte = 1e-9}));
  EXPECT_FALSE(runs_directly(lower(program, chain_flows(2)), {}));
}

}  // namespace
}  // namespace penstock
