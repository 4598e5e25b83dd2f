// The adaptive schedule: never slower than the best named one at the same cap, and within the cap.
#include "simulator/adaptive/adaptive.hpp"

#include <gmock/gmock.h>

#include <random>

#include "base/error.hpp"
#include "pipeline/program/check.hpp"
#include "pipeline/program/schedule.hpp"
#include "simulator/engine/simulate.hpp"

namespace penstock {
namespace {

AdaptiveProblem random_problem(std::mt19937& random) {
  std::uniform_real_distribution<double> time_s(0.2, 2);
  AdaptiveProblem problem;
  problem.ranks = 1 + static_cast<int>(random() % 4);
  problem.microbatches = 1 + static_cast<int>(random() % 10);
  const int stages = problem.ranks * (1 + static_cast<int>(random() % 3));
  const bool v = stages == 2 * problem.ranks && random() % 2;
  for (int stage = 0; stage < stages; ++stage) {
    problem.rank_of_stage.push_back(v ? std::min(stage, stages - 1 - stage)
                                      : stage % problem.ranks);
    StageCosts each{.forward_s = time_s(random)};
    each.backward_input_s = time_s(random);
    each.backward_weight_s = time_s(random);
    each.backward_s = 0.95 * (each.backward_input_s + each.backward_weight_s);
    each.saved_bytes = 40 + static_cast<int64_t>(random() % 60);
    each.saved_weight_bytes = 20 + static_cast<int64_t>(random() % 60);
    each.transient_backward_bytes = static_cast<int64_t>(random() % 30);
    each.transient_input_bytes = each.transient_weight_bytes = each.transient_backward_bytes;
    problem.costs.stages.push_back(each);
  }
  problem.flows = chain_flows(stages);
  for (const Flow& flow : problem.flows) {
    const auto bytes = static_cast<int64_t>(random() % 100);
    problem.costs.flows.push_back({flow.from, flow.to, bytes, bytes});
  }
  const SendMode modes[] = {SendMode::eager, SendMode::posted, SendMode::rendezvous};
  problem.network = Link{.latency_s = 0.05, .bandwidth = 500, .mode = modes[random() % 3]};
  return problem;
}

Simulation run(const AdaptiveProblem& problem, const Program& program) {
  return simulate_compute(program, problem.flows, problem.costs, problem.network, {false, false});
}

int64_t peak_bytes(const Simulation& simulation) {
  return *std::ranges::max_element(simulation.peak_memory_bytes);
}

std::vector<Program> named_programs(const AdaptiveProblem& problem) {
  std::vector<Program> programs;
  const int stages = static_cast<int>(problem.rank_of_stage.size());
  for (const Schedule& schedule : schedules()) {
    try {
      Program program =
          schedule.generate({problem.ranks, stages / problem.ranks, problem.microbatches});
      if (program.rank_of_stage == problem.rank_of_stage) programs.push_back(program);
    } catch (const InputError&) {
    }
  }
  return programs;
}

bool fits(const Simulation& simulation, const MemoryLimit& limit) {
  for (size_t rank = 0; rank < simulation.peak_memory_bytes.size(); ++rank) {
    if (simulation.peak_memory_bytes[rank] > limit.of(static_cast<int>(rank))) return false;
  }
  return true;
}

TEST(Adaptive, IsNeverSlowerThanTheBestNamedScheduleAtTheSameCap) {
  std::mt19937 random(5);
  int capped = 0, faster = 0;
  for (int i = 0; i < 150; ++i) {
    AdaptiveProblem problem = random_problem(random);
    const std::vector<Program> named = named_programs(problem);
    if (random() % 2 && !named.empty()) {  // a cap that one of them just meets
      const Simulation meets = run(problem, named[random() % named.size()]);
      problem.memory = random() % 2 ? MemoryLimit{.max_bytes = peak_bytes(meets)}
                                    : memory_limit(meets.peak_memory_bytes);
      ++capped;
    }
    const Program program = adaptive(problem);
    check_compute(program, "adaptive");
    const Simulation found = run(problem, program);
    EXPECT_TRUE(fits(found, problem.memory));
    double best_s = std::numeric_limits<double>::infinity();
    for (const Program& other : named) {
      const Simulation simulation = run(problem, other);
      if (!fits(simulation, problem.memory)) continue;
      best_s = std::min(best_s, simulation.makespan_s);
    }
    EXPECT_LE(found.makespan_s, best_s) << "problem " << i;
    faster += found.makespan_s < best_s;
  }
  EXPECT_GE(capped, 30);
  EXPECT_GE(faster, 50) << "on unequal stages the list scheduler finds better orders";
}

// What never fits is seen at once; `adaptive` tries all the same.
TEST(Adaptive, FindsNothingOnlyWhereNothingFits) {
  std::mt19937 random(11);
  int at_once = 0, fitting = 0;
  for (int i = 0; i < 60; ++i) {
    AdaptiveProblem problem = random_problem(random);
    problem.memory.max_bytes = peak_bytes(run(problem, adaptive(problem)));
    problem.memory.max_bytes =
        problem.memory.max_bytes * (10 + static_cast<int>(random() % 90)) / 100;
    const FoundAdaptive found = find_adaptive(problem);
    at_once += found.actions == 0;
    fitting += found.program.has_value();
    if (found.program) {
      EXPECT_EQ(to_csv(*found.program), to_csv(adaptive(problem)));
    } else {
      EXPECT_THROW(adaptive(problem), InputError);
    }
  }
  EXPECT_GT(at_once, 5);
  EXPECT_GT(fitting, 5);
}

TEST(Adaptive, OfEqualStagesHasNoMoreIdleTimeThanZeroBubble) {
  AdaptiveProblem problem{.rank_of_stage = {0, 1, 2, 3}, .ranks = 4, .microbatches = 12};
  problem.flows = chain_flows(4);
  StageCosts each{.forward_s = 1, .backward_s = 2, .backward_input_s = 1, .backward_weight_s = 1};
  problem.costs = equal_stages(4, each, problem.flows, 0);
  EXPECT_LE(run(problem, adaptive(problem)).makespan_s,
            run(problem, zb_h2.generate({.ranks = 4, .microbatches = 12})).makespan_s);
}

TEST(Adaptive, RunsMostBackwardsOfEachStageInItsFasterForm) {
  AdaptiveProblem problem{.rank_of_stage = {0, 1, 0, 1}, .ranks = 2, .microbatches = 12};
  problem.flows = chain_flows(4);
  StageCosts each{.forward_s = 1, .backward_input_s = 1, .backward_weight_s = 1};
  problem.costs = equal_stages(4, each, problem.flows, 0);
  const std::vector<double> whole_s{1.6, 2.4, 2.4, 1.6};
  for (size_t stage = 0; stage < whole_s.size(); ++stage)
    problem.costs.stages[stage].backward_s = whole_s[stage];
  std::vector<int> whole(whole_s.size(), 0);
  for (const std::vector<Action>& actions : adaptive(problem).ranks)
    for (const Action& action : actions)
      whole[static_cast<size_t>(action.stage)] += action.kind == Kind::backward;
  EXPECT_THAT(whole, ::testing::ElementsAre(::testing::Gt(6), 0, 0, ::testing::Gt(6)));
}

TEST(Adaptive, IsTheSameProgramEveryTime) {
  std::mt19937 random(9);
  for (int i = 0; i < 5; ++i) {
    const AdaptiveProblem problem = random_problem(random);
    EXPECT_EQ(to_csv(adaptive(problem)), to_csv(adaptive(problem)));
  }
}

TEST(Adaptive, SaysWhatIsLeastNeededWhereNothingFits) {
  AdaptiveProblem problem{.rank_of_stage = {0, 1}, .ranks = 2, .microbatches = 2};
  problem.flows = chain_flows(2);
  problem.costs =
      equal_stages(2, {.forward_s = 1, .backward_s = 2, .saved_bytes = 2048}, problem.flows, 0);
  problem.memory = {.max_bytes = 1024};
  EXPECT_THAT([&] { adaptive(problem); },
              ::testing::ThrowsMessage<InputError>(
                  ::testing::AllOf(::testing::HasSubstr("1.00 KiB per rank"),
                                   ::testing::HasSubstr("the best needs 3.00 KiB too much"))));
  // No named schedule runs these stages, and no order of them fits.
  problem.rank_of_stage = {0, 0, 1, 1};
  problem.flows = chain_flows(4);
  problem.costs =
      equal_stages(4, {.forward_s = 1, .backward_s = 2, .saved_bytes = 2048}, problem.flows, 0);
  EXPECT_THAT([&] { adaptive(problem); }, ::testing::ThrowsMessage<InputError>(::testing::HasSubstr(
                                              "nothing fits into 1.00 KiB per rank\n")));
}

}  // namespace
}  // namespace penstock
