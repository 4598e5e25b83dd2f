#include "simulator/costs/measured_compute.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "pipeline/program/schedule.hpp"
#include "tests/simulator/helpers.hpp"

namespace penstock {
namespace {

const Program gpipe_of_two = find_schedule("gpipe", "").generate({.ranks = 2, .microbatches = 1});

/// One step of two replicas: each action of replica r takes `seconds[r]`.
Timeline two_replicas(double first_s, double second_s) {
  Timeline timeline;
  for (int rank = 0; rank < 4; ++rank) {
    for (const Action& action : gpipe_of_two.ranks[static_cast<size_t>(rank % 2)])
      timeline.push_back({rank, action, 1, 1 + (rank < 2 ? first_s : second_s)});
  }
  return timeline;
}

TEST(MeasuredCompute, IsThatOfTheReplicaThatComputedLongest) {
  const Costs costs = testing::chain_costs(2, 1, 2, 0);
  const Action forward{0, Kind::forward, 0};
  EXPECT_EQ(costs.duration_s(forward), 1);
  for (const auto& [first_s, second_s] : {std::pair{4.0, 3.0}, std::pair{3.0, 4.0}}) {
    const Costs measured =
        with_measured_compute(costs, gpipe_of_two, 2, two_replicas(first_s, second_s), "m.json");
    EXPECT_EQ(measured.duration_s(forward), 4);
    EXPECT_EQ(measured.duration_s({1, Kind::backward, 0}), 4);
  }
}

TEST(MeasuredCompute, HoldsWhatSharedCoresAndSumsMadeLonger) {
  Costs costs = testing::chain_costs(2, 1, 2, 0);
  costs.cores = {{0}, {0}};
  costs.stages[0].sums = {{.sum_s = 5, .compute_s = 6}};
  const Costs measured =
      with_measured_compute(costs, gpipe_of_two, 2, two_replicas(1, 1), "m.json");
  EXPECT_TRUE(measured.cores.empty());
  EXPECT_EQ(measured.stages[0].sums[0].sum_s, 5);
  EXPECT_EQ(measured.stages[0].sums[0].compute_s, 0);
}

TEST(MeasuredCompute, NamesAnActionThatTheTimelineLacks) {
  Timeline timeline = two_replicas(1, 2);
  std::erase_if(timeline, [](const TimelineEvent& event) {
    return event.rank == 3 && event.action.kind == Kind::backward;
  });
  try {
    with_measured_compute(testing::chain_costs(2, 1, 2, 0), gpipe_of_two, 2, timeline, "m.json");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("m.json: it has no 1B0 on rank 3"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace penstock
