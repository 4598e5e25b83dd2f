// What the rounds of a chain vary by, on one rank and pooled over ranks.
#include <gmock/gmock.h>

#include "backend/profiler/samples.hpp"
#include "backend/profiler/timing/agree.hpp"
#include "tests/backend/executor/ranks.hpp"

namespace penstock::profiler {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A run of two stages in which every action takes so many seconds.
ChainRun run_of(double seconds, bool recorded = false) {
  const Seconds each{.device = seconds};
  return {.times = {2, MeasuredTimes{each, each, each, each}},
          .traced = recorded,
          .recorded = recorded};
}

Samples rounds_of(const std::vector<double>& seconds, bool recorded = false) {
  Samples samples(2);
  for (const double one : seconds) {
    samples.add(run_of(one, recorded), false);
    samples.add(run_of(one, recorded), true);
  }
  return samples;
}

TEST(ChainVariation, IsAllOfTheRoundsWhereActionsMoveTogether) {
  const ChainVariation found = rounds_of({1, 2, 3, 2}).variation();
  EXPECT_THAT(found.rounds, ElementsAre(0.5, 1, 1.5, 1));
  ASSERT_EQ(found.stages.size(), 2U);
  for (const ActionJitter& stage : found.stages) {
    for (const Factors* jitter :
         {&stage.forward, &stage.backward, &stage.backward_input, &stage.backward_weight}) {
      EXPECT_EQ(jitter->size(), kept_factors);
      EXPECT_THAT(*jitter, Each(1));
    }
  }
}

TEST(ChainVariation, FindsTheActionThatVariesAlone) {
  Samples samples(2);
  for (const double seconds : {0.5, 1.0, 1.5, 1.0}) {
    ChainRun whole = run_of(1);
    whole.times[1].backward.device = seconds;
    samples.add(whole, false);
    samples.add(run_of(1), true);
  }
  const ChainVariation found = samples.variation();
  EXPECT_GT(variance(found.stages[1].backward), 0.1);
  // Others seem to vary against it, by the tenth that it moves the round: a hundredth in variance,
  // stretched by their degrees of freedom (at most 4 / 3 / 0.9).
  EXPECT_LT(variance(found.stages[0].backward), 0.02 * variance(found.stages[1].backward));
}

TEST(ChainVariation, IsUnknownAfterTooFewRounds) {
  EXPECT_THAT(rounds_of({1, 2, 3}).variation().rounds, IsEmpty());
  Samples half(2);
  for (int i = 0; i < 8; ++i) half.add(run_of(i + 1), false);
  EXPECT_THAT(half.variation().rounds, IsEmpty()) << "F, I and W were never run";
}

TEST(ChainVariation, IsByTheDevicesRecordsWhereItHasAny) {
  Samples samples = rounds_of({5, 6, 5, 6});
  for (const double one : {1.0, 2.0, 3.0, 2.0}) {
    samples.add(run_of(one, true), false);
    samples.add(run_of(one, true), true);
  }
  EXPECT_THAT(samples.variation().rounds, ElementsAre(0.5, 1, 1.5, 1));
}

MicrobatchCosts costs_of(const Factors& rounds, const Factors& jitter) {
  MicrobatchCosts costs;
  costs.units.resize(1);
  costs.units[0].jitter = {jitter, jitter, jitter, jitter};
  costs.rounds = {rounds};
  return costs;
}

TEST(PoolVariation, ListsRoundsByRankAndMixesJitter) {
  test::run_ranks(make_in_process(2), [](Communicator& communicator) {
    MicrobatchCosts costs = communicator.rank() == 0
                                ? costs_of({0.5, 1.5}, Factors(kept_factors, 0.5))
                                : costs_of({1.25, 0.75}, Factors(kept_factors, 1.5));
    pool_variation(communicator, costs);
    EXPECT_THAT(costs.rounds, ElementsAre(Factors{0.5, 1.5}, Factors{1.25, 0.75}));
    Factors mixed(kept_factors / 2, 0.5);
    mixed.resize(kept_factors, 1.5);
    EXPECT_EQ(costs.units[0].jitter.forward, mixed);
    EXPECT_EQ(costs.units[0].jitter.backward_weight, mixed);
  });
}

TEST(PoolVariation, ForgetsItWhereRanksMeasuredDifferentNumbersOfRounds) {
  test::run_ranks(make_in_process(2), [](Communicator& communicator) {
    MicrobatchCosts costs = costs_of(Factors(4 + communicator.rank(), 1), {1});
    pool_variation(communicator, costs);
    EXPECT_THAT(costs.rounds, IsEmpty());
    EXPECT_FALSE(costs.units[0].jitter.any());
  });
}

}  // namespace
}  // namespace penstock::profiler
