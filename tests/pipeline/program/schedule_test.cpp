// Schedules as pictures, and their published properties over a grid of sizes.
#include "pipeline/program/schedule.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "pipeline/program/check.hpp"
#include "tests/pipeline/support.hpp"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Schedule, GPipeRunsAllForwardsThenAllBackwards) {
  EXPECT_EQ(draw(gpipe.generate({.ranks = 4, .microbatches = 4})),
            "F0 F1 F2 F3 .  .  .  .  .  .  .  .  .  B0 B0 B1 B1 B2 B2 B3 B3\n"
            ".  F0 F1 F2 F3 .  .  .  .  .  .  B0 B0 B1 B1 B2 B2 B3 B3 .  .\n"
            ".  .  F0 F1 F2 F3 .  .  .  B0 B0 B1 B1 B2 B2 B3 B3 .  .  .  .\n"
            ".  .  .  F0 F1 F2 F3 B0 B0 B1 B1 B2 B2 B3 B3 .  .  .  .  .  .\n");
}

TEST(Schedule, OneFOneBAlternates) {
  EXPECT_EQ(draw(one_f_one_b.generate({.ranks = 4, .microbatches = 6})),
            "F0 F1 F2 F3 .  .  .  .  .  .  B0 B0 F4 B1 B1 F5 B2 B2 .  B3 B3 .  B4 B4 .  B5 B5\n"
            ".  F0 F1 F2 .  .  .  .  B0 B0 F3 B1 B1 F4 B2 B2 F5 B3 B3 .  B4 B4 .  B5 B5 .  .\n"
            ".  .  F0 F1 .  .  B0 B0 F2 B1 B1 F3 B2 B2 F4 B3 B3 F5 B4 B4 .  B5 B5 .  .  .  .\n"
            ".  .  .  F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 F4 B4 B4 F5 B5 B5 .  .  .  .  .  .\n");
}

TEST(Schedule, OneFOneBWithFewerMicrobatchesThanRanks) {
  EXPECT_EQ(to_csv(one_f_one_b.generate({.ranks = 3, .microbatches = 2})),
            "0F0,0F1,0B0,0B1\n"
            "1F0,1F1,1B0,1B1\n"
            "2F0,2B0,2F1,2B1\n");
}

TEST(Schedule, ForwardOnlyKeepsTheForwardsInOrder) {
  EXPECT_EQ(to_csv(forward_only(one_f_one_b.generate({.ranks = 2, .microbatches = 3}))),
            "0F0,0F1,0F2\n"
            "1F0,1F1,1F2\n");
  EXPECT_EQ(to_csv(forward_only(parse_csv("0F0,0F1,(1F0;1B0)OVERLAP_F_B,0B0", ""))),
            "0F0,0F1,1F0\n");
}

struct Size {
  int ranks, microbatches;
};

const std::vector<Size>& sizes() {
  static const std::vector<Size> all = [] {
    std::vector<Size> result;
    for (int ranks : {1, 2, 3, 4, 7, 8, 16}) {
      for (int microbatches : {1, 2, 3, 4, 5, 8, 13, 32}) result.push_back({ranks, microbatches});
    }
    return result;
  }();
  return all;
}

/// The length of the first row of the drawing, in units of time (three characters each).
int units_of_rank_0(const Program& program) {
  const std::string grid = draw(program);
  return static_cast<int>((grid.find('\n') + 2) / 3);
}

TEST(Schedule, MicrobatchesHeldAtOnceFollowTheFormulas) {
  for (const auto& [ranks, microbatches] : sizes()) {
    const Program all = gpipe.generate({.ranks = ranks, .microbatches = microbatches});
    const Program few = one_f_one_b.generate({.ranks = ranks, .microbatches = microbatches});
    for (int rank = 0; rank < ranks; ++rank) {
      const auto at = static_cast<size_t>(rank);
      EXPECT_EQ(max_held(all.ranks[at]), microbatches);
      EXPECT_EQ(max_held(few.ranks[at]), std::min(microbatches, ranks - rank));
    }
  }
}

// With F = 1, B = 2 and free transfers both take (M + P - 1)(F + B), and rank 0 ends last.
TEST(Schedule, SpanFollowsTheFormula) {
  for (const auto& [ranks, microbatches] : sizes()) {
    for (const char* name : {"gpipe", "1f1b"}) {
      const Schedule& schedule = find_schedule(name, "");
      EXPECT_EQ(units_of_rank_0(schedule.generate({.ranks = ranks, .microbatches = microbatches})),
                3 * (microbatches + ranks - 1))
          << name << " with " << ranks << " ranks, " << microbatches << " microbatches";
    }
  }
}

TEST(Schedule, ShapesThatAreNotAllowedAreRefusedWithTheCure) {
  EXPECT_THAT(
      input_error([] { gpipe.generate({.ranks = 2, .stages_per_rank = 2, .microbatches = 4}); }),
      AllOf(StartsWith("schedule gpipe: 2 stages per rank"),
            HasSubstr("runs 1 on each rank, 2 in all")));
  EXPECT_THAT(
      input_error(
          [] { one_f_one_b.generate({.ranks = 2, .stages_per_rank = 3, .microbatches = 4}); }),
      AllOf(StartsWith("schedule 1f1b: 3 stages per rank"), HasSubstr("runs 1 on each rank")));
  EXPECT_THAT(input_error([] { gpipe.generate({.ranks = 0, .microbatches = 4}); }),
              AllOf(HasSubstr("0 ranks"), HasSubstr("least is 1")));
  EXPECT_THAT(input_error([] { gpipe.generate({.ranks = 2, .microbatches = -3}); }),
              HasSubstr("-3 microbatches"));
  EXPECT_THAT(input_error([] { gpipe.generate({.ranks = 1 << 20, .microbatches = 1 << 20}); }),
              AllOf(HasSubstr("too many"), HasSubstr("at most 32 microbatches")));
}

TEST(Schedule, AnUnknownNameSuggestsTheNearest) {
  EXPECT_EQ(find_schedule("1f1b", "--schedule").name, "1f1b");
  EXPECT_THAT(input_error([] { find_schedule("1f1", "--schedule"); }),
              AllOf(StartsWith("--schedule: there is no schedule `1f1`"),
                    HasSubstr("Did you mean 1f1b?"), HasSubstr("Schedules: gpipe, 1f1b")));
}

}  // namespace
}  // namespace penstock
