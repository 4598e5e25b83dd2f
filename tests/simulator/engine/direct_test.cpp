// Running compute actions as they are gives what the engine gives for the lowered program.
#include "simulator/engine/direct.hpp"

#include <gmock/gmock.h>

#include <optional>
#include <random>
#include <utility>

#include "base/error.hpp"
#include "pipeline/program/schedule.hpp"
#include "simulator/engine/lanes.hpp"
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

FlowTable table(const Program& program, const std::vector<Flow>& flows) {
  return FlowTable(flows, program.rank_of_stage);
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

/// At random; nothing where the schedule refuses the shape.
std::optional<Program> random_program(const Schedule& schedule, std::mt19937& random) {
  const ScheduleShape shape{
      1 + static_cast<int>(random() % 5),
      schedule.stages_per_rank ? schedule.stages_per_rank : 1 + static_cast<int>(random() % 3),
      1 + static_cast<int>(random() % 20)};
  if (schedule.refusal(shape)) return std::nullopt;
  return schedule.generate(shape);
}

Link random_link(SendMode mode, std::mt19937& random) {
  return {.latency_s = 0.1 * static_cast<double>(random() % 3),
          .bandwidth = random() % 2 ? 1000.0 : 100.0,
          .propagation_s = 0.2 * static_cast<double>(random() % 2),
          .mode = mode,
          .receive_depth = 1 + static_cast<int>(random() % 3)};
}

/// The same sums in the same order: equal to the last bit.
void expect_what_the_engine_gives(const Program& program, const std::vector<Flow>& flows,
                                  const Costs& costs, const Network& network) {
  const Simulation direct = simulate_compute(program, flows, costs, network, {false, false});
  const Simulation engine = simulate(lower(program, flows), costs, network, {false, false});
  EXPECT_EQ(direct.makespan_s, engine.makespan_s);
  EXPECT_EQ(direct.bubble, engine.bubble);
  EXPECT_EQ(direct.busy_s, engine.busy_s);
  EXPECT_EQ(direct.rank_start_s, engine.rank_start_s);
  EXPECT_EQ(direct.rank_end_s, engine.rank_end_s);
  EXPECT_EQ(direct.peak_activations, engine.peak_activations);
  EXPECT_EQ(direct.peak_memory_bytes, engine.peak_memory_bytes);
  EXPECT_EQ(direct.actions, engine.actions);
}

TEST(Direct, GivesTheSameNumbersAsTheEngineForEverySchedule) {
  std::mt19937 random(7);
  int compared = 0;
  for (const Schedule& schedule : schedules()) {
    SCOPED_TRACE(schedule.name);
    for (int i = 0; i < 40; ++i) {
      const auto program = random_program(schedule, random);
      if (!program) continue;
      const std::vector<Flow> flows = random_flows(program->stage_count(), random);
      const Costs costs = random_costs(program->stage_count(), flows, random);
      const Link link = random_link(SendMode::eager, random);
      ASSERT_TRUE(runs_directly(*program, table(*program, flows), link));
      expect_what_the_engine_gives(*program, flows, costs, link);
      ++compared;
    }
  }
  EXPECT_GE(compared, 200);
}

/// So that no two microbatches take the same, and receivers fall behind and catch up.
void measure_at_random(const Program& program, Costs& costs, std::mt19937& random) {
  std::uniform_real_distribution<double> time_s(0, 6);
  for (const std::vector<Action>& actions : program.ranks) {
    for (const Action& action : actions) costs.measured_s[action] = time_s(random);
  }
}

/// Some of its forwards overlap with the backward behind them.
void overlap_some(std::vector<Action>& actions, std::mt19937& random) {
  for (size_t i = 1; i < actions.size(); ++i) {
    const Action &forward = actions[i - 1], &backward = actions[i];
    const bool pair = forward.kind == Kind::forward && is_input_backward(backward.kind) &&
                      forward.microbatch != backward.microbatch;
    if (!pair || random() % 3 == 0) continue;
    actions[i] = overlap(forward, backward);
    actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(i) - 1);
  }
}

/// Swaps actions of each rank, and joins some; nothing where the program then cannot run.
std::optional<Program> shuffled(Program program, const std::vector<Flow>& flows,
                                std::mt19937& random) {
  for (std::vector<Action>& actions : program.ranks) {
    for (size_t i = 1; i < actions.size(); ++i) {
      if (random() % 8 == 0) std::swap(actions[i - 1], actions[i]);
    }
    if (random() % 2) overlap_some(actions, random);
  }
  try {
    lower(program, flows);
  } catch (const InputError&) {
    return std::nullopt;
  }
  return program;
}

TEST(Direct, PostedSendsAreTheEnginesToo) {
  std::mt19937 random(11);
  int compared = 0, shuffled_too = 0, waited = 0;
  for (const Schedule& schedule : schedules()) {
    SCOPED_TRACE(schedule.name);
    for (int i = 0; i < 300; ++i) {
      const auto program = random_program(schedule, random);
      if (!program) continue;
      const std::vector<Flow> flows = chain_flows(program->stage_count());
      Costs costs = random_costs(program->stage_count(), flows, random);
      if (i % 2) measure_at_random(*program, costs, random);
      Link link = random_link(SendMode::posted, random);
      if (i % 20 == 0) link.receive_depth = 1 << 30;
      ASSERT_TRUE(runs_directly(*program, table(*program, flows), link));
      expect_what_the_engine_gives(*program, flows, costs, link);
      ++compared;
      if (const auto other = shuffled(*program, flows, random)) {
        expect_what_the_engine_gives(*other, flows, costs, link);
        ++shuffled_too;
      }
      Link eager = link;
      eager.mode = SendMode::eager;
      waited += simulate_compute(*program, flows, costs, link, {false, false}).rank_end_s !=
                simulate_compute(*program, flows, costs, eager, {false, false}).rank_end_s;
    }
  }
  EXPECT_GE(compared, 2000);
  EXPECT_GE(shuffled_too, 500);
  EXPECT_GE(waited, 100);  // elsewhere a receive is always posted in time
}

/// Nodes of one to three devices whose links, cards or switch share about as much as a link has.
Cluster random_cluster(int ranks, SendMode mode, std::mt19937& random) {
  const auto bandwidth = [&] { return 50.0 * static_cast<double>(1 + random() % 10); };
  const auto sometimes = [&](double value) { return random() % 2 ? value : 0; };
  NodeKind node{.devices = 1 + static_cast<int>(random() % 3)};
  node.count = (ranks + node.devices - 1) / node.devices;
  node.latency_s = sometimes(0.1);
  node.bandwidth = bandwidth();
  node.bus_bandwidth = sometimes(bandwidth());
  node.bus_full_duplex = random() % 2;
  node.cards = 1 + static_cast<int>(random() % static_cast<unsigned>(node.devices));
  if (node.devices % node.cards != 0) node.cards = 1;
  node.card_bandwidth = sometimes(bandwidth());
  node.card_full_duplex = random() % 2;
  return {.ranks = node.count * node.devices,
          .link = random_link(mode, random),
          .nodes = {node},
          .between = {.latency_s = sometimes(0.3),
                      .propagation_s = sometimes(0.2),
                      .switch_bandwidth = sometimes(bandwidth())}};
}

TEST(Direct, SharedLinksAreTheEnginesToo) {
  std::mt19937 random(13);
  int compared = 0, shared = 0, slowed = 0;
  for (const Schedule& schedule : schedules()) {
    SCOPED_TRACE(schedule.name);
    for (int i = 0; i < 200; ++i) {
      const auto program = random_program(schedule, random);
      if (!program) continue;
      const std::vector<Flow> flows = chain_flows(program->stage_count());
      Costs costs = random_costs(program->stage_count(), flows, random);
      if (i % 2) measure_at_random(*program, costs, random);
      const SendMode mode = i % 3 ? SendMode::posted : SendMode::eager;
      Cluster cluster = random_cluster(program->rank_count(), mode, random);
      const Network network(cluster);
      ASSERT_TRUE(runs_directly(*program, table(*program, flows), network));
      expect_what_the_engine_gives(*program, flows, costs, network);
      ++compared;
      if (const auto other = shuffled(*program, flows, random))
        expect_what_the_engine_gives(*other, flows, costs, network);
      const Lanes lanes(*program, table(*program, flows), costs, network);
      shared += lanes.share_links();
      cluster.nodes[0].bus_bandwidth = 0;
      for (double* one : {&cluster.nodes[0].card_bandwidth, &cluster.between.switch_bandwidth})
        *one *= 100;
      slowed +=
          simulate_compute(*program, flows, costs, network, {false, false}).makespan_s >
          simulate_compute(*program, flows, costs, Network(cluster), {false, false}).makespan_s;
    }
  }
  EXPECT_GE(compared, 1000);
  EXPECT_GE(shared, 500);
  EXPECT_GE(slowed, 300);
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

TEST(Direct, LeavesToTheEngineWhatDependsOnTheOrderOfReceives) {
  const Program program = one_f_one_b.generate({.ranks = 3, .microbatches = 2});
  const auto runs = [&](const Network& network, const std::vector<Flow>& flows = chain_flows(3)) {
    return runs_directly(program, table(program, flows), network);
  };
  const Link posted{.mode = SendMode::posted};
  EXPECT_TRUE(runs({}));
  EXPECT_TRUE(runs(posted));
  EXPECT_FALSE(runs(Link{.mode = SendMode::posted, .receive_depth = 0}));
  EXPECT_FALSE(runs(Link{.mode = SendMode::rendezvous}));
  EXPECT_FALSE(runs(Link{.sender_s_per_byte = 1e-9}));

  const std::vector<Flow> joined = {{0, 1}, {0, 2, false}, {1, 2}};  // stage 2 waits for two
  EXPECT_TRUE(runs({}, joined));
  EXPECT_FALSE(runs(Network({.ranks = 3, .nodes = {{.count = 3, .card_bandwidth = 1}}}), joined));
  EXPECT_FALSE(runs(posted, joined));
  const std::vector<Flow> divided = {{0, 1}, {0, 2}};  // the backward of stage 0 does
  EXPECT_FALSE(runs(posted, divided));
  EXPECT_TRUE(runs(posted, {{0, 1}, {0, 2, false}}));

  const Program lowered = lower(program, chain_flows(3));
  EXPECT_FALSE(runs_directly(lowered, table(lowered, chain_flows(3)), Link{}));
}

}  // namespace
}  // namespace penstock
