// Steps of tensor groups with drawn times: their parts wait for the slowest wherever they meet.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "simulator/noise/step_sampler.hpp"
#include "tests/simulator/helpers.hpp"
#include "tests/simulator/noise/many_draws.hpp"

namespace penstock::testing {
namespace {

/// F and B of so many phases of a second, after each of which the parts send for 1/4 s; of B's
/// last phase nothing is sent unless it is `closed`.
struct Group {
  int forward, backward;
  bool closed = true;

  Costs costs(int stages = 1) const {
    return chain_costs(stages, forward * 1.25, backward * 1.25 - (closed ? 0 : 0.25), 1 << 10);
  }
  StepNoise noise(int64_t parts, const Factors& jitter, int stages = 1) const {
    StepNoise noise{.group_parts = parts};
    noise.stages.resize(static_cast<size_t>(stages));
    for (StageNoise& stage : noise.stages) {
      for (int action = 0; action < 2; ++action) {
        ActionNoise& of = stage[static_cast<size_t>(action)];
        const int phases = action == 0 ? forward : backward;
        for (int phase = 0; phase < phases; ++phase)
          of.parts.push_back({phase, action, 1, 0, jitter, phase});
        of.sent_s = 0.25 * phases - (action == 1 && !closed ? 0.25 : 0);
      }
    }
    return noise;
  }
};

std::vector<double> group_steps(const StepNoise& noise, const Costs& costs,
                                const Program& program) {
  const Network network;
  StepSampler sampler(program, costs, network, noise, 1);
  std::vector<double> steps_s;
  for (int64_t number = 0; number < many; ++number) steps_s.push_back(sampler.drawn_s(1, number));
  return steps_s;
}

const char* const one_microbatch = "0F0 0B0";

TEST(GroupNoise, EachPhaseTakesItsSlowestPart) {
  const Group group{3, 1};
  const Factors jitter{0.8, 1.2};
  for (const int parts : {1, 2, 3, 8}) {
    const auto drawn_s =
        group_steps(group.noise(parts, jitter), group.costs(), rows(one_microbatch));
    // All parts of a phase are fast once in 2^parts.
    const double slow = 1 - std::pow(0.5, parts);
    const double truth = 4 * 0.16 * slow * (1 - slow);
    EXPECT_NEAR(mean_of(drawn_s), 4 * (0.8 + 0.4 * slow) + 1, four_errors(truth)) << parts;
    EXPECT_NEAR(variance(drawn_s), truth, four_errors(4 * 0.16 * 0.16)) << parts;
  }
}

TEST(GroupNoise, WhatTheySendKeepsItsTime) {
  const Group group{2, 2};
  StepNoise noise = group.noise(2, {1});
  noise.own = {0.5, 1.5};
  const auto drawn_s = group_steps(noise, group.costs(), rows(one_microbatch));
  // Three of four times a part takes 6 seconds, else both take 2, and they send for one.
  EXPECT_NEAR(mean_of(drawn_s), 0.75 * 6 + 0.25 * 2 + 1, four_errors(16 * 3.0 / 16));
  for (const double step_s : drawn_s) EXPECT_TRUE(step_s == 7 || step_s == 3) << step_s;
}

TEST(GroupNoise, PartsAreSlowedTogetherByWhatIsCommon) {
  const Group group{2, 2};
  StepNoise noise = group.noise(4, {1});
  noise.common = {0.5, 1.5};
  const auto drawn_s = group_steps(noise, group.costs(), rows(one_microbatch));
  EXPECT_NEAR(mean_of(drawn_s), 5, four_errors(4));
}

TEST(GroupNoise, IsTheSimulationToTheLastBitWhereNothingVaries) {
  const Group group{3, 5, false};
  Costs costs = group.costs(3);
  for (StageCosts& stage : costs.stages) stage.first_forward_s = 0.07;
  const Program program = lowered(one_f_one_b, 3, 6);
  const Network network({.latency_s = 1.0 / 64, .bandwidth = 1 << 20});
  StepSampler sampler(program, costs, network, group.noise(2, {1, 1}, 3), 2);
  const double step_s = simulate(program, costs, network).makespan_s;
  EXPECT_EQ(sampler.drawn_s(0, 0), step_s);
  EXPECT_EQ(sampler.shifted_s(0, 0), step_s);
}

TEST(GroupNoise, IsNeverExpectedToBeFasterThanOnMeanTimes) {
  const Group group{2, 3};
  const Program program = lowered(one_f_one_b, 4, 8);
  const Costs costs = group.costs(4);
  double before_s = simulate(program, costs, Network()).makespan_s;
  for (const int parts : {1, 2, 4}) {
    StepNoise noise = group.noise(parts, {0.8, 0.9, 1.3}, 4);
    noise.own = {0.95, 1.05};
    const double expected_s = mean_of(group_steps(noise, costs, program));
    EXPECT_GT(expected_s, before_s) << parts;
    before_s = expected_s;
  }
}

/// Parts as ranks with clocks of their own, which are set to the latest where they meet.
double with_clocks(const Group& group, int parts, int microbatches, const Factors& jitter,
                   std::mt19937_64& random) {
  std::uniform_int_distribution<size_t> draw(0, jitter.size() - 1);
  std::vector<double> clocks(static_cast<size_t>(parts), 0);
  for (int action = 0; action < 2 * microbatches; ++action) {
    const int phases = action % 2 == 0 ? group.forward : group.backward;
    for (int phase = 0; phase < phases; ++phase) {
      for (double& clock : clocks) clock += jitter[draw(random)];
      if (action % 2 == 1 && phase + 1 == phases && !group.closed) continue;
      std::ranges::fill(clocks, std::ranges::max(clocks) + 0.25);
    }
  }
  return std::ranges::max(clocks);
}

TEST(GroupNoise, IsThatOfClocksWhereActionsEndWithAMessageAndElseNoLess) {
  const Factors jitter{0.7, 0.9, 1, 1.4};
  const int microbatches = 2, parts = 3;
  for (const bool closed : {true, false}) {
    const Group group{2, 3, closed};
    std::mt19937_64 random(7);
    std::vector<double> clocks_s;
    for (int64_t number = 0; number < many; ++number)
      clocks_s.push_back(with_clocks(group, parts, microbatches, jitter, random));
    const auto drawn_s =
        group_steps(group.noise(parts, jitter), group.costs(), rows("0F0 0B0 0F1 0B1"));
    const double error_s = four_errors(variance(clocks_s) + variance(drawn_s));
    const double above_s = mean_of(drawn_s) - mean_of(clocks_s);
    if (closed) {
      EXPECT_NEAR(above_s, 0, error_s);
    } else {  // the F behind the first B might have begun apart
      EXPECT_GT(above_s, error_s);
    }
  }
}

}  // namespace
}  // namespace penstock::testing
