// What each schedule's entry says, beside the programs that it generates.
#include <gmock/gmock.h>

#include <set>

#include "pipeline/program/schedule.hpp"
#include "tests/pipeline/in_flight.hpp"
#include "tests/pipeline/support.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;

std::vector<ScheduleShape> grid() {
  std::vector<ScheduleShape> shapes;
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int stages_per_rank = 1; stages_per_rank <= 3; ++stages_per_rank) {
      for (int microbatches = 1; microbatches <= 4 * ranks + 1; ++microbatches) {
        shapes.push_back({ranks, stages_per_rank, microbatches});
      }
    }
  }
  return shapes;
}

std::string text(const Schedule& schedule, const ScheduleShape& shape) {
  return std::string(schedule.name) + ": " + std::to_string(shape.ranks) + " ranks, " +
         std::to_string(shape.stages_per_rank) + " stages each, " +
         std::to_string(shape.microbatches) + " microbatches";
}

class ScheduleFacts : public ::testing::TestWithParam<Schedule> {
 protected:
  const Schedule& schedule_ = GetParam();
  std::vector<ScheduleShape> shapes() const {
    std::vector<ScheduleShape> run = grid();
    std::erase_if(run, [&](const ScheduleShape& shape) { return schedule_.refusal(shape); });
    return run;
  }
};

TEST_P(ScheduleFacts, ARankHoldsWhatTheEntrySays) {
  ASSERT_GE(shapes().size(), 50U);
  for (const ScheduleShape& shape : shapes()) {
    const Program program = schedule_.generate(shape);
    for (int rank = 0; rank < shape.ranks; ++rank) {
      EXPECT_EQ(schedule_.held(shape, rank), max_held(program.ranks[static_cast<size_t>(rank)]))
          << text(schedule_, shape) << ", rank " << rank;
    }
  }
}

TEST_P(ScheduleFacts, ForwardsAndBackwardsAlternateWhereTheEntrySays) {
  bool alternates = true;
  for (const ScheduleShape& shape : shapes()) {
    std::vector<int> held;
    for (int rank = 0; rank < shape.ranks; ++rank) held.push_back(schedule_.held(shape, rank));
    const bool here = in_flight(schedule_.generate(shape)) == held;
    EXPECT_TRUE(here || !schedule_.alternates) << text(schedule_, shape);
    alternates = alternates && here;
  }
  EXPECT_EQ(alternates, schedule_.alternates);
}

TEST_P(ScheduleFacts, StagesLieAsTheEntrySays) {
  for (const ScheduleShape& shape : shapes()) {
    const Program program = schedule_.generate(shape);
    const int ranks = shape.ranks;
    for (int stage = 0; stage < program.stage_count(); ++stage) {
      const int round = stage / ranks, place = stage % ranks;
      const bool upwards = schedule_.placement == StagePlacement::v && round % 2 == 1;
      EXPECT_EQ(program.rank_of_stage[static_cast<size_t>(stage)],
                upwards ? ranks - 1 - place : place)
          << text(schedule_, shape);
    }
  }
}

TEST_P(ScheduleFacts, StagesPerRankAreThoseOfTheEntry) {
  std::set<int> run;
  for (const ScheduleShape& shape : shapes()) run.insert(shape.stages_per_rank);
  const int always = schedule_.stages_per_rank;
  EXPECT_EQ(run, always == 0 ? std::set<int>({1, 2, 3}) : std::set<int>({always}));
}

TEST_P(ScheduleFacts, TheBackwardIsSplitWhereTheEntrySays) {
  bool split = false;
  for (const ScheduleShape& shape : shapes()) {
    split = split || to_csv(schedule_.generate(shape)).find('W') != std::string::npos;
  }
  EXPECT_EQ(split, schedule_.split_backward);
}

TEST_P(ScheduleFacts, AShapeIsRefusedWithTheReasonThatGeneratingItGives) {
  for (const ScheduleShape& shape : grid()) {
    const auto refusal = schedule_.refusal(shape);
    const std::string error = input_error([&] { schedule_.generate(shape); });
    ASSERT_EQ(refusal.has_value(), !error.empty()) << text(schedule_, shape);
    if (!refusal) continue;
    EXPECT_THAT(error, HasSubstr(refusal->problem));
    EXPECT_THAT(error, HasSubstr(refusal->cure));
  }
}

std::string entry_name(const ::testing::TestParamInfo<Schedule>& entry) {
  std::string name(entry.param.name);
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Schedules, ScheduleFacts, ::testing::ValuesIn(schedules()), entry_name);

TEST(ScheduleTable, HasEachNameOnce) {
  std::set<std::string_view> names;
  for (const Schedule& schedule : schedules()) {
    EXPECT_TRUE(names.insert(schedule.name).second) << schedule.name;
    EXPECT_EQ(schedule_named(schedule.name), &schedule);
  }
  EXPECT_EQ(schedule_named(adaptive_schedule), nullptr);
}

}  // namespace
}  // namespace penstock
