// Schedules with several stages per rank, or with the backward in two parts: as pictures, and their
// published properties over a grid of sizes.
#include <gmock/gmock.h>

#include <algorithm>

#include "pipeline/program/check.hpp"
#include "tests/pipeline/support.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Schedules, LoopedBfsRunsStageAfterStage) {
  EXPECT_EQ(draw(looped_bfs.generate({.ranks = 2, .stages_per_rank = 2, .microbatches = 3})),
            "F0 F1 F2 f0 f1 f2 .  .  .  b2 b2 b1 b1 b0 b0 B2 B2 B1 B1 B0 B0\n"
            ".  F0 F1 F2 f0 f1 f2 b2 b2 b1 b1 b0 b0 B2 B2 B1 B1 B0 B0 .  .\n");
}

TEST(Schedules, Interleaved1f1bVisitsStagesInRounds) {
  EXPECT_EQ(draw(interleaved_1f1b.generate({.ranks = 2, .stages_per_rank = 2, .microbatches = 4})),
            "F0 F1 f0 f1 F2 .  b0 b0 F3 b1 b1 f2 B0 B0 f3 B1 B1 .  b2 b2 .  b3 b3 B2 B2 B3 B3\n"
            ".  F0 F1 f0 b0 b0 f1 b1 b1 F2 B0 B0 F3 B1 B1 f2 b2 b2 f3 b3 b3 B2 B2 B3 B3 .  .\n");
}

TEST(Schedules, InterleavedZeroBubblePutsOffW) {
  EXPECT_EQ(draw(interleaved_zb.generate({.ranks = 2, .stages_per_rank = 2, .microbatches = 4})),
            "F0 F1 f0 f1 .  i0 w0 F2 i1 w1 F3 I0 W0 f2 I1 W1 f3 i2 w2 i3 w3 I2 W2 I3 W3\n"
            ".  F0 F1 f0 i0 f1 i1 w0 F2 I0 w1 F3 I1 W0 f2 i2 W1 f3 i3 w2 I2 w3 I3 W2 W3\n");
}

TEST(Schedules, ZbH1RunsWWhereItWouldIdle) {
  EXPECT_EQ(draw(zb_h1.generate({.ranks = 4, .microbatches = 6})),
            "F0 F1 F2 F3 .  .  .  I0 W0 F4 I1 W1 F5 I2 W2 I3 W3 I4 W4 I5 W5\n"
            ".  F0 F1 F2 .  .  I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 I4 W3 I5 W4 W5\n"
            ".  .  F0 F1 .  I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 I5 W3 W4 W5\n"
            ".  .  .  F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 W3 W4 W5\n");
}

TEST(Schedules, ZbH2StartsWithMoreForwards) {
  EXPECT_EQ(draw(zb_h2.generate({.ranks = 3, .microbatches = 6})),
            "F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5 .  .\n"
            ".  F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 W1 I4 W2 I5 W3 W4 W5 .\n"
            ".  .  F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 W2 W3 W4 W5\n");
}

TEST(Schedules, ZbvTurnsAtTheLastRank) {
  EXPECT_EQ(draw(zbv.generate({.ranks = 2, .stages_per_rank = 2, .microbatches = 4})),
            "F0 F1 F2 f0 i0 w0 f1 i1 w1 F3 I0 W0 f2 i2 w2 I1 W1 f3 i3 w3 I2 W2 I3 W3 .\n"
            ".  F0 f0 F1 f1 i0 w0 F2 I0 W0 f2 i1 w1 F3 I1 W1 f3 i2 w2 I2 i3 I3 W2 w3 W3\n");
}

TEST(Schedules, DualPipeVRunsForwardsBesideBackwards) {
  EXPECT_EQ(draw(dualpipev.generate({.ranks = 2, .stages_per_rank = 2, .microbatches = 4})),
            "F0 F1 F2 f0 i0 w0 f1 F3 b1 b1 .  f2 B0 B0 b2 b2 .  f3 B1 B1 b3 b3 I2 W2 I3 W3\n"
            ".  F0 f0 F1 f1 F2 b0 b0 f2 B0 B0 F3 b1 b1 f3 B1 B1 b2 b2 B2 B2 .  i3 I3 w3 W3\n");
}

/// Shapes that the schedule allows, of a grid of sizes.
std::vector<ScheduleShape> shapes_of(const Schedule& schedule) {
  std::vector<ScheduleShape> shapes;
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    for (const int stages_per_rank : {1, 2, 3}) {
      for (const int microbatches : {1, 2, 3, 4, 5, 7, 8, 10, 16, 17, 32}) {
        const ScheduleShape shape{ranks, stages_per_rank, microbatches};
        if (input_error([&] { schedule.generate(shape); }).empty()) shapes.push_back(shape);
      }
    }
  }
  return shapes;
}

TEST(Schedules, RunEveryActionOnceAndPassTheChecksAfterLowering) {
  for (const Schedule& schedule : schedules()) {
    const std::vector<ScheduleShape> shapes = shapes_of(schedule);
    EXPECT_GE(shapes.size(), 30U) << schedule.name;
    for (const ScheduleShape& shape : shapes) {
      const Program program = schedule.generate(shape);
      ASSERT_EQ(program.rank_count(), shape.ranks);
      ASSERT_EQ(program.stage_count(), shape.ranks * shape.stages_per_rank);
      check_compute(program, schedule.name);
      const auto flows = chain_flows(program.stage_count());
      check(lower(program, flows), flows, schedule.name);
      check(lower(forward_only(program), flows), flows, schedule.name);
    }
  }
}

TEST(Schedules, SayTruthfullyWhetherTheySplitTheBackwardAndHowManyStagesTheyRun) {
  for (const Schedule& schedule : schedules()) {
    bool split = false;
    for (const ScheduleShape& shape : shapes_of(schedule)) {
      if (schedule.stages_per_rank > 0) {
        EXPECT_EQ(shape.stages_per_rank, schedule.stages_per_rank);
      }
      split |= to_csv(schedule.generate(shape)).find('W') != std::string::npos;
    }
    EXPECT_EQ(split, schedule.split_backward) << schedule.name;
  }
}

/// The formula of what rank r holds at once, in stages x microbatches.
int held(std::string_view schedule, const ScheduleShape& shape, int rank) {
  const auto [p, v, m] = shape;
  const int per_round = m / std::max(1, m / p);
  if (schedule == "looped-bfs") return m * v;
  if (schedule == "interleaved-1f1b") {
    return std::min(m * v, (v - 1) * per_round + 2 * (p - 1 - rank) + 1);
  }
  if (schedule == "interleaved-zb") return std::min(m * v, (v - 1) * per_round + p);
  if (schedule == "zb-h1") return std::min(m, p);
  if (schedule == "zb-h2") return std::min(m, 2 * p - 1);
  return 0;
}

TEST(Schedules, HoldAtOnceWhatTheFormulasSay) {
  for (const char* name : {"looped-bfs", "interleaved-1f1b", "interleaved-zb", "zb-h1", "zb-h2"}) {
    const Schedule& schedule = find_schedule(name, "");
    for (const ScheduleShape& shape : shapes_of(schedule)) {
      const Program program = schedule.generate(shape);
      for (int rank = 0; rank < shape.ranks; ++rank) {
        EXPECT_EQ(max_held(program.ranks[static_cast<size_t>(rank)]), held(name, shape, rank))
            << name << ", rank " << rank << " of " << shape.ranks << ", " << shape.stages_per_rank
            << " stages each, " << shape.microbatches << " microbatches";
      }
    }
  }
}

// Full pipelines: with fewer microbatches less is held.
TEST(Schedules, OfTheVHoldAtMostTwoMicrobatchesPerRank) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int microbatches : {2 * ranks, 2 * ranks + 1, 4 * ranks + 3}) {
      const ScheduleShape shape{ranks, 2, microbatches};
      int zbv_most = 0, dualpipev_most = 0;
      for (const auto& actions : zbv.generate(shape).ranks) {
        zbv_most = std::max(zbv_most, max_held(actions));
      }
      for (const auto& actions : dualpipev.generate(shape).ranks) {
        dualpipev_most = std::max(dualpipev_most, max_held(actions));
      }
      EXPECT_EQ(zbv_most, 2 * ranks);
      EXPECT_EQ(dualpipev_most, 2 * ranks + 1) << ranks << " ranks, " << microbatches;
    }
  }
}

TEST(Schedules, RefuseShapesWithTheNearestThatTheyAllow) {
  EXPECT_THAT(input_error([] {
                interleaved_1f1b.generate({4, 2, 9});
              }),
              AllOf(StartsWith("schedule interleaved-1f1b: 9 microbatches do not make 2 equal"),
                    HasSubstr("8 or 10")));
  EXPECT_THAT(input_error([] { interleaved_zb.generate({2, 2, 7}); }), HasSubstr("6 or 8"));
  EXPECT_THAT(input_error([] {
                zbv.generate({4, 1, 8});
              }),
              AllOf(HasSubstr("1 stages per rank"), HasSubstr("runs 2 on each rank, 8 in all")));
  EXPECT_THAT(input_error([] {
                dualpipev.generate({4, 2, 7});
              }),
              AllOf(HasSubstr("7 microbatches are too few for 4 ranks"), HasSubstr("at least 8")));
  EXPECT_THAT(input_error([] { zb_h1.generate({4, 2, 7}); }), HasSubstr("runs 1 on each rank"));
  EXPECT_THAT(input_error([] { looped_bfs.generate({4, 0, 7}); }), HasSubstr("0 stages per rank"));
}

}  // namespace
}  // namespace penstock
