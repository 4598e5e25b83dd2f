// Noise of stages, from a profile.
#include "simulator/noise/step_noise.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/simulator/two_layers.hpp"

namespace penstock::two_layers {
namespace {

using ::testing::ElementsAre;

ActionJitter jitter(double low) {
  const Factors factors{low, 2 - low};
  return {factors, factors, factors, factors};
}

/// Each operator is a unit; two ranks, four rounds of which the second rank has none.
Profile noisy() {
  Profile of = profile();
  MicrobatchCosts& costs = of.microbatches.front();
  for (int unit = 0; unit < 2; ++unit) {
    costs.units.push_back({"u", unit, unit + 1, costs.operators[unit].times, {}});
    for (Measured ActionTimes::*action :
         {&ActionTimes::forward, &ActionTimes::backward, &ActionTimes::backward_input,
          &ActionTimes::backward_weight})
      (costs.units.back().times.*action).repetitions = 8;
  }
  costs.units[0].jitter = jitter(0.5);
  costs.units[1].jitter = jitter(1);
  costs.rounds = {{0.6, 1.4, 0.8, 1.2}, {1, 1, 1, 1}};
  return of;
}

StepNoise noise(const Profile& of, const Slicing& slicing = stages()) {
  return step_noise(of, nullptr, plan(), slicing, costs(plan(), slicing)).value();
}

TEST(StepNoise, IsAbsentWhereTheProfileKnowsOfNone) {
  EXPECT_FALSE(knows_noise(profile()));
  EXPECT_FALSE(step_noise(profile(), nullptr, plan(), stages(), costs()));
  EXPECT_TRUE(knows_noise(noisy()));
}

TEST(StepNoise, SharesAllOfAStagesTimeOutToItsUnits) {
  const StepNoise of = noise(noisy());
  const Costs all = costs();
  ASSERT_EQ(of.stages.size(), 2U);
  for (size_t stage = 0; stage < 2; ++stage) {
    const StageCosts& own = all.stages[stage];
    const double seconds[] = {own.forward_s, own.backward_s, own.backward_input_s,
                              own.backward_weight_s};
    for (size_t action = 0; action < 4; ++action) {
      ASSERT_EQ(of.stages[stage][action].parts.size(), 1U);
      const NoisePart& part = of.stages[stage][action].parts.front();
      EXPECT_EQ(part.unit, static_cast<int>(stage));
      EXPECT_EQ(part.action, static_cast<int>(action));
      EXPECT_DOUBLE_EQ(part.seconds, seconds[action]);
    }
  }
  EXPECT_THAT(of.stages[0][0].parts.front().jitter, ElementsAre(0.5, 1.5));
}

TEST(StepNoise, ErrsByVarianceOverRepetitionsOnAllRanks) {
  const StepNoise of = noise(noisy());
  EXPECT_DOUBLE_EQ(of.stages[0][0].parts.front().error, std::sqrt(0.25 / (8 * 2)));
  EXPECT_EQ(of.stages[1][0].parts.front().error, 0);
  // The mean of the ranks has rounds of 0.8, 1.2, 0.9 and 1.1: variance 0.1 / 3, four of them.
  EXPECT_DOUBLE_EQ(of.size_error, std::sqrt(0.1 / 3 / 4));
}

TEST(StepNoise, TakesWhatJitterExplainsOffTheRounds) {
  Profile without = noisy();
  without.microbatches.front().units[0].jitter = jitter(1);
  const MicrobatchCosts& costs = without.microbatches.front();
  double sum_s = 0, squares = 0;
  for (const auto& [times, jittered] :
       {std::pair(costs.units[0].times, true), std::pair(costs.units[1].times, false)}) {
    for (const double seconds : {times.forward.mean_s, times.forward.mean_s, times.backward.mean_s,
                                 times.backward_input.mean_s, times.backward_weight.mean_s}) {
      sum_s += seconds;
      squares += jittered ? 0.25 * seconds * seconds : 0;
    }
  }
  const double explained = squares / (sum_s * sum_s);
  ASSERT_GT(explained, 0.001);
  EXPECT_NEAR(variance(noise(without).own) - variance(noise(noisy()).own), explained, 1e-12);
}

TEST(StepNoise, OfASizeThatWasMeasuredTooSeldomIsThatOfTheNearest) {
  Profile of = noisy();
  of.microbatches.insert(of.microbatches.begin(), 2, of.microbatches.front());
  of.microbatches[0].microbatch = 1;
  of.microbatches[0].units[0].jitter = jitter(0.25);
  of.microbatches[1].microbatch = 4;
  of.microbatches[1].rounds.clear();
  for (UnitCost& unit : of.microbatches[1].units) unit.jitter = {};
  const auto first = [&](int64_t size) {
    Plan of_size = plan();
    of_size.microbatch = size;
    return step_noise(of, nullptr, of_size, stages(), costs())->stages[0][0].parts.front().jitter;
  };
  EXPECT_THAT(first(1), ElementsAre(0.25, 1.75));
  EXPECT_THAT(first(4), ElementsAre(0.5, 1.5)) << "8 is nearer than 1";
  // A quarter of the time has relative deviations twice as large.
  for (OperatorCost& op : of.microbatches[1].operators) op.times.forward.mean_s /= 4;
  of.microbatches[2].units[0].jitter = jitter(0.75);
  EXPECT_THAT(first(4), ElementsAre(0.5, 1.5));
}

TEST(StepNoise, StretchesTheJitterOfAPartOfAUnitAsOfASumOfParts) {
  Profile of = noisy();
  MicrobatchCosts& costs_of = of.microbatches.front();
  costs_of.units.pop_back();
  UnitCost& unit = costs_of.units.front();
  unit.end = 2;
  unit.jitter = jitter(0.75);
  unit.times.forward.mean_s = 4 * costs_of.operators[1].times.forward.mean_s;
  const StepNoise found = noise(of);
  EXPECT_THAT(found.stages[1][0].parts.front().jitter, ElementsAre(0.5, 1.5));
  EXPECT_DOUBLE_EQ(found.stages[1][0].parts.front().seconds, costs().stages[1].forward_s);
}

TEST(StepNoise, LetsWhatIsRecomputedVaryAsTheForward) {
  Costs all = costs();
  all.stages[0].recompute_s = 3;
  all.stages[0].backward_s += 3;
  const StepNoise found = step_noise(noisy(), nullptr, plan(), stages(), all).value();
  ASSERT_EQ(found.stages[0][1].parts.size(), 2U);
  EXPECT_EQ(found.stages[0][1].parts[1].action, 0);
  EXPECT_DOUBLE_EQ(found.stages[0][1].parts[1].seconds, 3);
  EXPECT_DOUBLE_EQ(found.stages[0][1].parts[0].seconds, costs().stages[0].backward_s);
}

/// Both operators on one stage; the first sends to the other parts for 4 of its 16 seconds forward,
/// and in the loss they send for 1 of 4.
TEST(StepNoise, OfAGroupIsApartWhereItsPartsMeetAndLeavesOutWhatTheySend) {
  Profile of = noisy();
  MicrobatchCosts& size = of.microbatches.front();
  size.sent = {{.forward = 4}, {}};
  size.loss_sent_s = 1;
  Plan one = plan();
  one.stages.pop_back();
  one.tensor_parallel = 2;
  Slicing slicing;
  slicing.stage_of_operator = {0, 0};
  slicing.stages = {{.operators = {0, 1}, .user_inputs = {0}, .tensors = {0, 1}, .outputs = {0}}};
  const Costs all = plan_costs(one, model(), slicing, of);
  const StepNoise found = step_noise(of, nullptr, one, slicing, all).value();
  EXPECT_EQ(found.group_parts, 2);
  // 5 are sent, of 16 + 32 seconds and 1 of the loss.
  const double forward_s = all.stages[0].forward_s;
  const ActionNoise& forward = found.stages[0][0];
  ASSERT_EQ(forward.parts.size(), 2U);
  EXPECT_EQ(forward.parts[0].phase, 0);
  EXPECT_EQ(forward.parts[1].phase, 1);
  EXPECT_DOUBLE_EQ(forward.parts[0].seconds, forward_s * 12 / 49);
  EXPECT_DOUBLE_EQ(forward.parts[1].seconds, forward_s * 32 / 49);
  EXPECT_DOUBLE_EQ(forward.sent_s, forward_s * 5 / 49);
  EXPECT_THAT(forward.parts[0].jitter, ElementsAre(0.5, 1.5)) << "as a whole unit";
  const ActionNoise& backward = found.stages[0][1];
  EXPECT_EQ(backward.parts[1].phase, 0);
  EXPECT_EQ(backward.sent_s, 0);
}

TEST(StepNoise, KnowsTheErrorOfTheLinkThatWasMeasuredNotOfAClusters) {
  Profile of = noisy();
  of.links.front().residual = 0.1;
  EXPECT_DOUBLE_EQ(noise(of).link_error, 0.14826);
  const Cluster cluster;
  EXPECT_EQ(step_noise(of, &cluster, plan(), stages(), costs())->link_error, 0);
}

}  // namespace
}  // namespace penstock::two_layers
