// Steps with drawn times, against what is known of their distribution.
#include "simulator/noise/step_sampler.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "simulator/noise/draw.hpp"
#include "tests/simulator/helpers.hpp"
#include "tests/simulator/noise/many_draws.hpp"

namespace penstock::testing {
namespace {

Link link() { return {.latency_s = 1.0 / 64, .bandwidth = 1 << 20}; }

/// For stages whose F and B are one unit each, numbered like the stages.
StepNoise noise_of(const Costs& costs, const Factors& jitter) {
  StepNoise noise;
  for (size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const auto part = [&](int action, double seconds) {
      return NoisePart{static_cast<int>(stage), action, seconds, 0, jitter};
    };
    noise.stages.push_back({});
    noise.stages.back()[0].parts.push_back(part(0, costs.stages[stage].forward_s));
    noise.stages.back()[1].parts.push_back(part(1, costs.stages[stage].backward_s));
  }
  return noise;
}

std::vector<double> steps(StepSampler& sampler, uint64_t seed = 1, int64_t count = many) {
  std::vector<double> steps_s;
  for (int64_t number = 0; number < count; ++number)
    steps_s.push_back(sampler.drawn_s(seed, number));
  return steps_s;
}

/// F and B of a microbatch on one rank, or F and B of one on each of two that exchange nothing.
const char* const one_rank = "0F0 0B0";
const char* const two_ranks = "0F0 0B0\n1F0 1B0";

TEST(Draw, TakesEveryValueAsOften) {
  const Factors values{1, 2, 3, 4, 5};
  std::vector<double> drawn_values;
  for (uint64_t i = 0; i < many; ++i) drawn_values.push_back(drawn(values, mixed(3, i)));
  EXPECT_NEAR(mean_of(drawn_values), 3, four_errors(2));
  // The fourth moment of these values is 6.8, so their square deviations vary by 6.8 - 2 * 2.
  EXPECT_NEAR(variance(drawn_values), 2, four_errors(2.8) + 2.0 * 16 / many);
  EXPECT_EQ(std::set<double>(drawn_values.begin(), drawn_values.end()).size(), values.size());
}

TEST(Draw, OfANormalNumberHasMean0AndVariance1) {
  std::vector<double> numbers;
  for (uint64_t i = 0; i < many; ++i) numbers.push_back(drawn_normal(mixed(4, i)));
  EXPECT_NEAR(mean_of(numbers), 0, four_errors(1));
  // A sum of four uniform numbers has a kurtosis of 3 - 6 / (5 * 4).
  EXPECT_NEAR(variance(numbers), 1, four_errors(1.7) + 16.0 / many);
}

TEST(StepSampler, GivesTheSimulationToTheLastBitWhereNothingVaries) {
  for (const Schedule& schedule : {one_f_one_b, gpipe, zb_h1}) {
    const Program program = lowered(schedule, 3, 6);
    Costs costs = chain_costs(3, 0.1, 0.2, 1000);
    for (StageCosts& stage : costs.stages) {
      stage.backward_input_s = 0.07;
      stage.backward_weight_s = 0.03;
      stage.first_forward_s = 0.01;
    }
    const Network network(link());
    const double step_s = simulate(program, costs, network).makespan_s;
    StepNoise noise = noise_of(costs, {1, 1, 1});
    StepSampler sampler(program, costs, network, noise, 2);
    EXPECT_EQ(sampler.drawn_s(0, 0), step_s);
    EXPECT_EQ(sampler.shifted_s(0, 0), step_s);
    const SampledSteps one = sampled_steps(sampler, 5, 1);
    EXPECT_EQ(one.mean_s, step_s);
    EXPECT_EQ(one.median_s, step_s);
    EXPECT_EQ(one.p5_s, step_s);
    EXPECT_EQ(one.p95_s, step_s);
  }
}

TEST(StepSampler, DependsOnSeedAndNumberAlone) {
  const Program program = lowered(one_f_one_b, 2, 4);
  const Costs costs = chain_costs(2, 1, 2);
  const Network network;
  StepNoise noise = noise_of(costs, {0.8, 1, 1.2});
  noise.own = {0.9, 1.1};
  StepSampler one(program, costs, network, noise, 1), other(program, costs, network, noise, 1);
  const double fifth = other.drawn_s(1, 5);
  other.shifted_s(1, 5);
  EXPECT_EQ(steps(one, 1, 6)[5], fifth);
  EXPECT_EQ(steps(one, 1, 50), steps(other, 1, 50));
  EXPECT_NE(steps(one, 1, 50), steps(one, 2, 50));
}

TEST(StepSampler, DrawsOneRankWithItsMeanAndTheVarianceOfItsParts) {
  const Program program = rows(one_rank);
  const Costs costs = chain_costs(1, 1, 2);
  StepNoise noise = noise_of(costs, {0.7, 1.3});
  noise.common = {0.95, 1.05};
  noise.own = {0.9, 1.1};
  const Network network;
  StepSampler sampler(program, costs, network, noise, 1);
  const std::vector<double> drawn_s = steps(sampler);
  // F and B have jitter of their own: the relative variance of their sum is 0.09 (1 + 4) / 9.
  const double truth = 9 * ((1 + 0.0025) * (1 + 0.01) * (1 + 0.09 * 5 / 9) - 1);
  EXPECT_NEAR(mean_of(drawn_s), 3, four_errors(truth));
  // The kurtosis of products and sums of two-valued factors is below that of a normal, 3.
  EXPECT_NEAR(variance(drawn_s), truth, four_errors(2 * truth * truth));
}

TEST(StepSampler, ExpectsTheMaximumOfTwoIndependentRanks) {
  const Program program = rows(two_ranks);
  const Costs costs = chain_costs(2, 1, 2);
  StepNoise noise = noise_of(costs, {1});
  noise.own = {0.5, 1.5};
  const Network network;
  StepSampler sampler(program, costs, network, noise, 1);
  // Three of four times one of them takes 4.5, else both take 1.5.
  EXPECT_NEAR(mean_of(steps(sampler)), 0.75 * 4.5 + 0.25 * 1.5, four_errors(9 * 3.0 / 16));
}

TEST(StepSampler, ExpectsNoMoreOfRanksThatSlowTogether) {
  const Program program = rows(two_ranks);
  const Costs costs = chain_costs(2, 1, 2);
  StepNoise noise = noise_of(costs, {1});
  noise.common = {0.5, 1.5};
  const Network network;
  StepSampler sampler(program, costs, network, noise, 1);
  EXPECT_NEAR(mean_of(steps(sampler)), 3, four_errors(9.0 / 4));
}

TEST(StepSampler, TakesTheSlowestReplica) {
  const Program program = rows(one_rank);
  const Costs costs = chain_costs(1, 1, 2);
  StepNoise noise = noise_of(costs, {1});
  noise.own = {0.5, 1.5};
  const Network network;
  StepSampler sampler(program, costs, network, noise, 2);
  EXPECT_NEAR(mean_of(steps(sampler)), 0.75 * 4.5 + 0.25 * 1.5, four_errors(9 * 3.0 / 16));
}

TEST(StepSampler, LeavesTransfersAsTheyAre) {
  const Program program = lowered(one_f_one_b, 2, 1);
  const Costs costs = chain_costs(2, 0, 0, 1 << 20);
  StepNoise noise = noise_of(costs, {0.5, 1.5});
  noise.own = {0.5, 1.5};
  const Network network(link());
  StepSampler sampler(program, costs, network, noise, 1);
  EXPECT_EQ(sampler.drawn_s(0, 0), simulate(program, costs, network).makespan_s);
}

TEST(StepSampler, IsNeverExpectedToBeFasterThanOnMeanTimes) {
  for (const Schedule& schedule : {one_f_one_b, gpipe, zb_h1, zb_h2}) {
    const Program program = lowered(schedule, 4, 8);
    Costs costs = chain_costs(4, 1, 2, 1 << 16);
    for (StageCosts& stage : costs.stages) stage.backward_input_s = stage.backward_weight_s = 1;
    StepNoise noise = noise_of(costs, {0.8, 0.9, 1.3});
    noise.own = {0.95, 1.05};
    const Network network(link());
    StepSampler sampler(program, costs, network, noise, 1);
    const std::vector<double> drawn_s = steps(sampler, 1, 500);
    EXPECT_GE(mean_of(drawn_s) + four_errors(variance(drawn_s), 500),
              simulate(program, costs, network).makespan_s);
  }
}

TEST(StepSampler, ShiftsMeansByTheirStandardErrors) {
  const Program program = rows(one_rank);
  const Costs costs = chain_costs(1, 1, 2);
  StepNoise noise = noise_of(costs, {1});
  noise.stages[0][0].parts[0].error = 0.03;
  noise.stages[0][1].parts[0].error = 0.01;
  noise.size_error = 0.02;
  const Network network;
  StepSampler sampler(program, costs, network, noise, 1);
  std::vector<double> shifted_s;
  for (int64_t number = 0; number < many; ++number)
    shifted_s.push_back(sampler.shifted_s(1, number));
  // F errs by 0.03, B by 0.02, all by 0.02 of 3; products of errors are smaller by their square.
  const double truth = 0.03 * 0.03 + 0.02 * 0.02 + 0.06 * 0.06;
  EXPECT_NEAR(mean_of(shifted_s), 3, four_errors(truth));
  EXPECT_NEAR(variance(shifted_s), truth, four_errors(2 * truth * truth) + truth * 0.001);
}

TEST(StepSampler, ShiftsTheLinkOfAllTransfersTogether) {
  const Program program = lowered(one_f_one_b, 2, 1);
  const Costs costs = chain_costs(2, 0, 0, 1 << 20);
  StepNoise noise = noise_of(costs, {1});
  noise.link_error = 0.05;
  const Network network(link());
  StepSampler sampler(program, costs, network, noise, 1);
  std::vector<double> shifted_s;
  for (int64_t number = 0; number < many; ++number)
    shifted_s.push_back(sampler.shifted_s(1, number));
  const double step_s = simulate(program, costs, network).makespan_s;
  const double truth = 0.05 * 0.05 * step_s * step_s;
  EXPECT_NEAR(variance(shifted_s), truth, four_errors(2 * truth * truth));
  EXPECT_EQ(sampler.drawn_s(0, 0), step_s) << "and puts it back";
}

TEST(StepSampler, SplitsAUnitsDrawsByActionAndMicrobatchOfOverlapsToo) {
  Costs costs = chain_costs(1, 1, 2);
  StepNoise noise = noise_of(costs, {0.5, 1.5});
  const Network network;
  const Program program = rows("0F0 0F1 (0F2;0B0)OVERLAP_F_B 0B1 0B2");
  StepSampler sampler(program, costs, network, noise, 1);
  // Three F of variance 1/4, three B of variance 1, all drawn apart.
  const std::vector<double> drawn_s = steps(sampler);
  EXPECT_NEAR(mean_of(drawn_s), 9, four_errors(3.75));
  EXPECT_NEAR(variance(drawn_s), 3.75, four_errors(2 * 3.75 * 3.75));
}

TEST(SampledSteps, AreTheirMeanAndQuantiles) {
  const Program program = rows(one_rank);
  const Costs costs = chain_costs(1, 1, 0);
  StepNoise noise = noise_of(costs, {1});
  noise.own = {0.5, 0.75, 1, 1.25, 1.5};
  const Network network;
  StepSampler sampler(program, costs, network, noise, 1);
  const SampledSteps found = sampled_steps(sampler, 3, 1000);
  EXPECT_EQ(found.count, 1000);
  EXPECT_EQ(found.seed, 3U);
  EXPECT_NEAR(found.mean_s, 1, four_errors(0.125, 1000));
  // A fifth of the steps has each of the values, and a quantile is one of them.
  EXPECT_EQ(found.p5_s, 0.5);
  EXPECT_EQ(found.median_s, 1);
  EXPECT_EQ(found.p95_s, 1.5);
}

}  // namespace
}  // namespace penstock::testing
