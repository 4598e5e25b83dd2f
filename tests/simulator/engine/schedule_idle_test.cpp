// The idle time that each schedule's entry says, beside the simulation of its programs.
#include <gtest/gtest.h>

#include "tests/simulator/helpers.hpp"

namespace penstock {
namespace {

/// Quarters of a second, so that sums are exact.
const std::vector<StageTimes>& quarters() {
  static const std::vector<StageTimes> times = {
      {1, 1, 1},         {1, 1, 0.5}, {1, 1.5, 1}, {1.25, 1.5, 1}, {1, 0.75, 0.5}, {2, 1, 1},
      {0.75, 1.25, 0.5}, {1, 1, 0},   {1, 1, 2},   {0.5, 1, 1.25}, {3, 0.5, 0.5}};
  return times;
}

double simulated_idle_s(const Schedule& schedule, const ScheduleShape& shape,
                        const StageTimes& times) {
  const Program program = schedule.generate(shape);
  const auto flows = chain_flows(program.stage_count());
  const StageCosts each{.forward_s = times.forward_s,
                        .backward_s = times.input_s + times.weight_s,
                        .backward_input_s = times.input_s,
                        .backward_weight_s = times.weight_s};
  const Costs costs = equal_stages(program.stage_count(), each, flows, 0);
  const Simulation run =
      simulate_compute(program, flows, costs, {}, {.timeline = false, .memory = false});
  return run.makespan_s - shape.stages_per_rank * shape.microbatches * times.whole_s();
}

class ScheduleIdle : public ::testing::TestWithParam<Schedule> {};

TEST_P(ScheduleIdle, IsWhatTheEntrySaysWhereverItDoes) {
  const Schedule& schedule = GetParam();
  int compared = 0;
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int stages_per_rank = 1; stages_per_rank <= 3; ++stages_per_rank) {
      for (int microbatches = 1; microbatches <= 3 * ranks + 1; ++microbatches) {
        const ScheduleShape shape{ranks, stages_per_rank, microbatches};
        if (schedule.refusal(shape)) continue;
        for (const StageTimes& times : quarters()) {
          const std::optional<double> idle_s = schedule.idle_s(shape, times);
          if (!idle_s) continue;
          ASSERT_EQ(*idle_s, simulated_idle_s(schedule, shape, times))
              << ranks << " ranks, " << stages_per_rank << " stages each, " << microbatches
              << " microbatches, F " << times.forward_s << ", I " << times.input_s << ", W "
              << times.weight_s;
          ++compared;
        }
      }
    }
  }
  EXPECT_GE(compared, 50);
}

/// Full pipelines of equal times are what every entry knows.
TEST_P(ScheduleIdle, IsKnownForEqualTimesOnceThePipelineIsFull) {
  const Schedule& schedule = GetParam();
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const int stages_per_rank = schedule.stages_per_rank == 0 ? 2 : schedule.stages_per_rank;
    const ScheduleShape shape{ranks, stages_per_rank, 2 * ranks};
    EXPECT_TRUE(schedule.idle_s(shape, {1, 1, 1})) << ranks << " ranks";
  }
}

std::string entry_name(const ::testing::TestParamInfo<Schedule>& entry) {
  std::string name(entry.param.name);
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Schedules, ScheduleIdle, ::testing::ValuesIn(schedules()), entry_name);

}  // namespace
}  // namespace penstock
