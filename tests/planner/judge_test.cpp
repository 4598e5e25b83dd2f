// Plans that are judged by the step that is to be expected of them.
#include "planner/judge.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

#include "tests/models/models.hpp"
#include "tests/planner/grouped_model.hpp"

namespace penstock::test {
namespace {

/// A profile of two ranks and four rounds in which every unit's jitter is the same: two values as
/// likely, `jitter` off the mean; rounds are off by `own`, opposed on the two ranks.
Profile with_noise(Profile profile, double jitter, double own) {
  const std::vector<double> factors{1 - jitter, 1 + jitter};
  const auto add_to = [&](std::vector<MicrobatchCosts>& sizes) {
    for (MicrobatchCosts& costs : sizes) {
      costs.rounds = {{1 - own, 1 + own, 1 - own, 1 + own}, {1 + own, 1 - own, 1 + own, 1 - own}};
      for (UnitCost& unit : costs.units) unit.jitter = {factors, factors, factors, factors};
    }
  };
  add_to(profile.microbatches);
  for (GroupCosts& group : profile.groups) add_to(group.microbatches);
  return profile;
}

/// On two ranks without replicas, whose schedules are as short as they are different.
PlanRequest request(double tolerance = 0) {
  return {.ranks = 2,
          .schedules = {"gpipe", "1f1b", "interleaved-1f1b", "zbv"},
          .data_parallel = 1,
          .tolerance = tolerance,
          .effort = effort_per_second};
}

/// Stages, and whether backwards are in two parts.
std::pair<size_t, bool> plainness(const Plan& plan) {
  return {plan.stages.size(), find_schedule(plan.schedule, "").split_backward};
}

TEST(Judge, KnowsNothingOfAProfileWithoutNoise) {
  PENSTOCK_MODEL(path, "transformer-text");
  const ProfiledModel f(path);
  const Planned planned = f.plan(request());
  EXPECT_EQ(planned.judged, 0);
  EXPECT_EQ(planned.plan.prediction->expected_s, 0);
  EXPECT_EQ(planned.expected_or_step_s(), planned.plan.prediction->step_s);
  EXPECT_EQ(to_yaml(planned.plan, f.folder.path() / "plan.yaml").find("expected_s"),
            std::string::npos);
}

TEST(Judge, ExpectsTheStepOnMeanTimesWhereNothingVaries) {
  PENSTOCK_MODEL(path, "transformer-text");
  ProfiledModel f(path);
  const Planned before = f.plan(request());
  f.profile = with_noise(f.profile, 0, 0);
  const Planned planned = f.plan(request());
  EXPECT_EQ(planned.plan.prediction->step_s, before.plan.prediction->step_s);
  // A mean of 64 equal numbers, each addition rounded by 2^-53.
  const double step_s = planned.plan.prediction->step_s;
  EXPECT_NEAR(planned.plan.prediction->expected_s, step_s, 64 * 0x1p-53 * step_s);
  EXPECT_EQ(planned.judged, 1) << "no other can be expected to be faster";
}

/// The first part has the luck of a rank that is alone; the others may have worse.
TEST(Judge, ExpectsTensorGroupsToWaitForTheirSlowestPart) {
  PENSTOCK_MODEL(path, "gpt2");
  GroupedModel f(path);
  f.profile = with_noise(f.profile, 0, 0.2);
  double before = 0;
  for (const int parts : {1, 2, 4}) {
    PlanRequest request{.ranks = parts, .data_parallel = 1};
    request.tensor_parallel = parts;
    const Planned planned = f.plan(request);
    const double longer = planned.plan.prediction->expected_s / planned.plan.prediction->step_s;
    EXPECT_GT(longer, before) << parts;
    if (parts > 1) {
      EXPECT_GT(longer, 1) << parts;
    }
    before = longer;
  }
}

TEST(Judge, FindsNoPlanExpectedToBeFasterThanTheOneItTakes) {
  PENSTOCK_MODEL(path, "transformer-text");
  ProfiledModel f(path);
  f.profile = with_noise(f.profile, 0.9, 0.1);
  const Planned planned = f.plan(request());
  const double expected_s = planned.plan.prediction->expected_s;
  EXPECT_GT(expected_s, planned.plan.prediction->step_s);
  EXPECT_GT(planned.judged, 1);
  int64_t judged = 0;
  for (const Searched& one : planned.searched) {
    if (one.best_s == 0) continue;
    judged += one.expected_s > 0;
    EXPECT_GE(one.expected_s > 0 ? one.expected_s : one.best_s, expected_s) << one.schedule;
  }
  EXPECT_EQ(judged, planned.judged);
  ASSERT_TRUE(planned.searched.front().chosen);
  // Narrower cuts may have made it shorter still.
  EXPECT_GE(planned.searched.front().expected_s, expected_s);
}

TEST(Judge, TakesASimplerPlanWhoseLossIsBelowTheNoise) {
  PENSTOCK_MODEL(path, "transformer-text");
  ProfiledModel f(path);
  f.profile = with_noise(f.profile, 0.9, 0.5);
  const Planned fastest = f.plan(request()), simple = f.plan(request(0.01));
  ASSERT_TRUE(simple.fastest);
  EXPECT_LT(plainness(simple.plan), plainness(fastest.plan));
  EXPECT_EQ(simple.fastest->schedule, fastest.plan.schedule);
  EXPECT_EQ(simple.fastest->expected_s, fastest.plan.prediction->expected_s);
  EXPECT_GT(simple.gain, 0);
  EXPECT_LE(simple.gain, simple.noise);
  EXPECT_GE(simple.noise, 0.01);
}

TEST(Judge, KeepsTheFastestWhereTheProfileTellsThemApart) {
  PENSTOCK_MODEL(path, "transformer-text");
  ProfiledModel f(path);
  f.profile = with_noise(f.profile, 0, 0.001);
  const Planned fastest = f.plan(request()), planned = f.plan(request(1e-6));
  EXPECT_EQ(planned.plan.stages.size(), fastest.plan.stages.size());
  EXPECT_EQ(planned.plan.schedule, fastest.plan.schedule);
}

TEST(Judge, GivesTheSamePlanForAnyNumberOfThreads) {
  PENSTOCK_MODEL(path, "transformer-text");
  ProfiledModel f(path);
  f.profile = with_noise(f.profile, 0.9, 0.1);
  PlanRequest threads = request(0.01);
  const std::filesystem::path file = f.folder.path() / "plan.yaml";
  const std::string one = to_yaml(f.plan(threads).plan, file);
  threads.threads = 2;
  EXPECT_EQ(to_yaml(f.plan(threads).plan, file), one);
  EXPECT_NE(one.find("expected_s"), std::string::npos);
}

TEST(StandardError, IsThatOfTheQuotientWhatBothShareCancels) {
  const Verdict one{1, {1, 2, 1, 2}, {10, 12, 10, 12}};
  Verdict twice = one;
  for (double& step_s : twice.drawn_s) step_s *= 2;
  EXPECT_EQ(standard_error(one, one), 0);
  EXPECT_EQ(standard_error(one, twice), 0) << "all steps of one are half as long";
  const Verdict steady{1, {1, 1, 1, 1}, {10, 10, 10, 10}};
  // Quotients 1 and 2 have a variance of 1 / 3, of a mean of 64; those of the means 0.01 * 4 / 3.
  EXPECT_NEAR(standard_error(one, steady), std::sqrt(0.04 / 3 + 1.0 / 3 / judged_steps), 1e-12);
}

}  // namespace
}  // namespace penstock::test
