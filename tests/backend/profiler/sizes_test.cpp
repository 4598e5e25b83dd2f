// Guarantees of the choice of microbatch sizes and of repetitions within the budget.
#include "backend/profiler/sizes.hpp"

#include <gmock/gmock.h>

#include <numeric>

#include "base/error.hpp"

namespace penstock::profiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Graph model(int64_t least, int64_t most, bool dynamic = true) {
  Graph graph;
  graph.dynamic_batch = dynamic;
  graph.example_batch = least;
  graph.min_batch = least;
  graph.max_batch = most;
  return graph;
}

TEST(MicrobatchSizes, AreTheDivisorsPowersOfTwoFirst) {
  EXPECT_THAT(microbatch_sizes(model(1, INT64_MAX), 12, "job"), ElementsAre(1, 2, 4, 3, 6, 12));
}

TEST(MicrobatchSizes, KeepToWhatTheModelAllows) {
  EXPECT_THAT(microbatch_sizes(model(2, 4), 12, "job"), ElementsAre(2, 4, 3));
  EXPECT_THAT(microbatch_sizes(model(4, 4, false), 12, "job"), ElementsAre(4));
}

TEST(MicrobatchSizes, RefuseAStaticBatchThatDoesNotDivide) {
  EXPECT_THAT([] { microbatch_sizes(model(5, 5, false), 12, "job.yaml"); },
              ThrowsMessage<InputError>(HasSubstr("multiple of 5")));
}

TEST(MicrobatchSizes, RefuseABatchBelowTheLeast) {
  EXPECT_THAT([] { microbatch_sizes(model(16, INT64_MAX), 12, "job.yaml"); },
              ThrowsMessage<InputError>(HasSubstr("at least 16")));
}

TEST(Repetitions, AreAtLeastThreeOfTheWholeAndOneOfItsParts) {
  const Repetitions least = repetitions(0.1);
  EXPECT_EQ(least.whole, 3);
  EXPECT_EQ(least.units, 1);
  EXPECT_EQ(least.operators, 1);
}

TEST(Repetitions, AreAtMostTwenty) {
  const Repetitions most = repetitions(1e6);
  EXPECT_EQ(most.whole, 100);
  EXPECT_EQ(most.operators, 100);
}

TEST(Repetitions, KeepToTheirTime) {
  for (int more = 0; more < 130; ++more) {
    const double passes = Repetitions().passes() + 0.7 * more;
    EXPECT_LE(repetitions(passes).passes(), passes);
  }
}

TEST(AffordableSizes, AreAllPowersOfTwo) {
  EXPECT_THAT(affordable({1, 2, 4, 8, 16, 32}, 32), ElementsAre(1, 2, 4, 8, 16, 32));
}

TEST(AffordableSizes, LeaveOutTheWholeBatchWhereTheTimeIsShort) {
  EXPECT_THAT(affordable({1, 2, 4, 8, 3, 6, 12, 24}, 24), ElementsAre(1, 2, 4, 8, 3, 6, 12));
}

/// A microbatch of m samples takes m / G of a step, so the repetitions' time in steps is known.
TEST(Budget, HoldsForEveryGlobalBatch) {
  for (int64_t batch = 1; batch <= 128; ++batch) {
    const auto sizes = affordable(microbatch_sizes(model(1, INT64_MAX), batch, "job"), batch);
    double steps = 0, allowed = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const double part = static_cast<double>(sizes[i]) / static_cast<double>(batch);
      allowed += allowed_steps(sizes, i, batch);
      steps += repetitions(allowed_steps(sizes, i, batch) / part).passes() * part;
    }
    EXPECT_NEAR(allowed, Effort().steps, 1e-9) << "global batch " << batch;
    EXPECT_LT(steps, 30) << "global batch " << batch;
  }
}

TEST(Budget, OfAQuickProfileIsSmallerAndHasRoomForTheSmallestSize) {
  EXPECT_THAT(affordable({1, 2, 4, 8, 16}, 16, quick_effort), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(affordable({1}, 1, quick_effort), ElementsAre(1));
  EXPECT_EQ(repetitions(0, quick_effort.minimum).whole, 2);
  EXPECT_LT(quick_effort.steps, Effort().steps);
  EXPECT_LT(quick_effort.seconds, Effort().seconds);
}

}  // namespace
}  // namespace penstock::profiler
