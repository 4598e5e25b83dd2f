// Our engine and SimGrid give the same makespans, over generated settings of every schedule.
//
// Tolerances: to six decimals, as published, and to a billionth of the makespan, which SimGrid can
// keep: it merges events closer than 1e-12 s (surf/precision in replay.hpp), so an end may come
// early by 1e-12 s for each event before it in its chain; the longest chain here has below a
// thousand, and the shortest makespans are some milliseconds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "simulator/engine/simulate.hpp"
#include "tests/simgrid/simgrid_run.hpp"
#include "tests/simulator/settings.hpp"

namespace penstock::testing {
namespace {

constexpr int settings_per_schedule = 60;
constexpr double six_decimals_s = 0.5e-6;

double ours_s(const Setting& setting) {
  return simulate(setting.program, setting.costs, setting.link,
                  {.timeline = false, .memory = false})
      .makespan_s;
}

class Agreement : public ::testing::TestWithParam<Schedule> {};

TEST_P(Agreement, OnMakespansWithSimGrid) {
  double worst = 0, fastest_s = 1e9;
  const auto seed = static_cast<unsigned>(GetParam().name.size());
  for (const Setting& setting : make_settings(GetParam(), settings_per_schedule, seed)) {
    const double ours = ours_s(setting);
    const Link& link = setting.link;
    const Wire wire{link.latency_s, link.bandwidth, link.propagation_s};
    const double theirs = simgrid_s(setting.program, setting.costs, Platform::plain(wire));
    EXPECT_NEAR(ours, theirs, six_decimals_s) << setting.description;
    EXPECT_NEAR(ours, theirs, 1e-9 * theirs) << setting.description;
    worst = std::max(worst, std::abs(ours - theirs) / theirs);
    fastest_s = std::min(fastest_s, theirs);
  }
  std::printf("  largest relative difference %.1e, shortest makespan %.6f s\n", worst, fastest_s);
}

std::string test_name(const ::testing::TestParamInfo<Schedule>& schedule) {
  std::string name(schedule.param.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Schedules, Agreement, ::testing::ValuesIn(schedules()), test_name);

/// 1F1B on equal stages, 16 MB messages, 25 GB/s, 10 us.
double worked_s(int ranks, int microbatches, const Platform& platform) {
  const Program program = lower(
      one_f_one_b.generate({.ranks = ranks, .microbatches = microbatches}), chain_flows(ranks));
  const Costs costs =
      equal_stages(ranks, {.forward_s = 1e-3, .backward_s = 2e-3}, chain_flows(ranks), 16'000'000);
  return simgrid_s(program, costs, platform);
}

// The values that formula_test.cpp holds our engine to.
TEST(SimGrid, GivesTheWorkedValues) {
  const Platform platform = Platform::plain({10e-6, 25e9});
  EXPECT_NEAR(worked_s(8, 512, platform), 2.147200, six_decimals_s);
  EXPECT_NEAR(worked_s(64, 512, platform), 2.460800, six_decimals_s);
}

// A latency that is set apart from the route for fairness takes the same time as one of the route.
TEST(SimGrid, TakesTheSameTimeWhereSharedLinksAreWide) {
  Platform platform = Platform::plain({10e-6, 25e9});
  const double alone_s = worked_s(4, 16, platform);
  platform.bus = platform.card = {1e15, 1e15};
  platform.switch_capacity = 1e15;
  EXPECT_NEAR(worked_s(4, 16, platform), alone_s, 1e-9 * alone_s);
}

}  // namespace
}  // namespace penstock::testing
