// The time of each rank by cause: by hand, and every second counted once.
#include "simulator/explain/rank_time.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "simulator/explain/stage_ranks.hpp"
#include "tests/simulator/random_program.hpp"

namespace penstock {
namespace {

void expect_time(const RankTime& time, const RankTime& expected) {
  EXPECT_EQ(time.compute_s, expected.compute_s);
  EXPECT_EQ(time.waiting_s, expected.waiting_s);
  EXPECT_EQ(time.transfers_s, expected.transfers_s);
  EXPECT_EQ(time.reduction_s, expected.reduction_s);
  EXPECT_EQ(time.optimizer_s, expected.optimizer_s);
}

TimelineEvent event(int rank, std::string_view action, double start_s, double end_s) {
  return {rank, parse_action(action, ""), start_s, end_s};
}

//  GPipe, two microbatches, transfers of half a second (golden_test.cpp):
//
//  rank 0  F0 F1 ........... B0 B0 B1 B1       idle from 2 to 6; B0's gradient is made at 5.5
//  rank 1  .....F0 F1 B0 B0 B1 B1 .......      idle to 1.5, F0's input is made at 1; from 7.5 on,
//                                              and 7SEND_B1 goes on for half a second of it
TEST(RankTime, AMessageOnItsWayIsTransferAndOneNotYetMadeIsWaiting) {
  const Timeline timeline = simulate(testing::lowered(gpipe, 2, 2),
                                     testing::chain_costs(2, 1, 2, 1), Link{.latency_s = 0.5})
                                .timeline;
  const std::vector<RankTime> times = rank_times(timeline, 2);
  expect_time(times[0], {.compute_s = 6, .waiting_s = 3.5, .transfers_s = 0.5});
  expect_time(times[1], {.compute_s = 6, .waiting_s = 3, .transfers_s = 1});
}

TEST(RankTime, AMeasuredSendMayOnlyHandItsMessageOver) {
  const Timeline timeline = {event(0, "0F0", 0, 2), event(1, "1RECV_F0", 0, 3),
                             event(0, "0SEND_F0", 2, 2), event(1, "1F0", 3, 4)};
  const std::vector<RankTime> times = rank_times(timeline, 2);
  expect_time(times[0], {.compute_s = 2, .waiting_s = 2});
  expect_time(times[1], {.compute_s = 1, .waiting_s = 2, .transfers_s = 1});
}

// Ranks 0 and 1 are a replica, 2 and 3 another, which is 5 s late.
TEST(RankTime, AMessageIsOfTheSameReplica) {
  Timeline timeline;
  for (const int first : {0, 2}) {
    const double late_s = first == 0 ? 0 : 5;
    timeline.push_back(event(first, "0F0", 0, 1 + late_s));
    timeline.push_back(event(first, "0SEND_F0", 1 + late_s, 2 + late_s));
    timeline.push_back(event(first + 1, "1RECV_F0", 0, 2 + late_s));
    timeline.push_back(event(first + 1, "1F0", 2 + late_s, 3 + late_s));
  }
  const std::vector<RankTime> times = rank_times(timeline, 4);
  expect_time(times[1], {.compute_s = 1, .waiting_s = 1 + 5, .transfers_s = 1});
  expect_time(times[3], {.compute_s = 1, .waiting_s = 1 + 5, .transfers_s = 1});
  const StageRanks stages(timeline);
  EXPECT_EQ(stages.rank(1, stages.number(0, 2)), 3);
  EXPECT_EQ(stages.rank(0, stages.number(1, 1)), 0);
  EXPECT_EQ(stages.number(1, 0), -1);
  EXPECT_EQ(stages.rank(2, 0), -1);
  EXPECT_EQ(stages.first_ranks(), (std::vector<int>{0, 1}));
}

TEST(RankTime, AReductionUnderABackwardCostsNothing) {
  const Timeline timeline = {event(0, "0F0", 1, 2), event(0, "0B0", 2, 4),
                             event(0, "0REDUCE_GRAD", 3, 7), event(0, "0OPT", 7, 8)};
  // From 1 to 8, 3 s of it compute and 1 s the optimizer's.
  expect_time(rank_times(timeline, 1)[0], {.compute_s = 3, .reduction_s = 3, .optimizer_s = 1});
}

// Times are multiples of 1/256 s (random_program.hpp), so that their sums are exact.
TEST(RankTime, EverySecondOfARandomProgramIsCountedOnce) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const testing::Case tested = testing::make_case(seed);
    SCOPED_TRACE(testing::describe(tested, seed));
    const Simulation simulation = simulate(tested.program, tested.costs, tested.link);
    std::vector<double> compute_s(tested.program.ranks.size());
    for (const TimelineEvent& event : simulation.timeline) {
      if (is_compute(event.action.kind))
        compute_s[static_cast<size_t>(event.rank)] += event.end_s - event.start_s;
    }
    const std::vector<RankTime> times =
        rank_times(simulation.timeline, tested.program.rank_count());
    for (size_t r = 0; r < times.size(); ++r) {
      EXPECT_EQ(times[r].compute_s, compute_s[r]);
      EXPECT_EQ(times[r].total_s(), makespan_s(simulation.timeline));
      EXPECT_GE(times[r].waiting_s, 0);
      EXPECT_GE(times[r].transfers_s, 0);
    }
    if (HasFailure()) return;
  }
}

TEST(RankTime, ErrorsByCauseAddUpToTheErrorOfTheStepOnEveryRank) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    testing::Case tested = testing::make_case(seed);
    SCOPED_TRACE(testing::describe(tested, seed));
    const Timeline predicted = simulate(tested.program, tested.costs, tested.link).timeline;
    for (StageCosts& stage : tested.costs.stages) stage.forward_s += 1;
    tested.link.latency_s += 0.5;
    const Timeline measured = simulate(tested.program, tested.costs, tested.link).timeline;
    const double error_s = makespan_s(predicted) - makespan_s(measured);
    const std::vector<RankTime> ranks = errors(predicted, measured, tested.program.rank_count());
    for (const RankTime& rank : ranks) EXPECT_EQ(rank.total_s(), error_s);
    // The mean of three ranks is rounded, each of its five parts once and their sum four times; the
    // parts are below 2^10 s.
    EXPECT_NEAR(mean(ranks).total_s(), error_s, 9 * 1024 * std::numeric_limits<double>::epsilon());
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace penstock
