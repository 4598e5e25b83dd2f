// Plans that are preferred to the fastest because they are simpler.
#include "planner/simplest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "graph/cuts/module_cuts.hpp"
#include "tests/models/models.hpp"
#include "tests/planner/profiled_model.hpp"

namespace penstock::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// The most module calls that a stage of the plan begins inside of.
int divided(const ProfiledModel& f, const Planned& planned) {
  int most = 0;
  const std::vector<int>& stages = planned.slicing.stage_of_operator;
  for (size_t op = 1; op < stages.size(); ++op) {
    if (stages[op] != stages[op - 1])
      most = std::max(most, divided_modules(f.model, static_cast<OperatorId>(op)));
  }
  return most;
}

Complexity complexity(const ProfiledModel& f, const Planned& planned) {
  const Plan& plan = planned.plan;
  const Schedule* schedule = schedule_named(plan.schedule);
  const int kind = !schedule || planned.branches ? 2 : schedule->split_backward ? 1 : 0;
  return {plan.ranks() * plan.data_parallel, static_cast<int>(plan.stages.size()), kind,
          divided(f, planned)};
}

TEST(Simplest, IsNeverLessSimpleNorSlowerThanTheToleranceAllows) {
  for (const char* name : {"pippy", "everything", "transformer-text", "iterative"}) {
    SCOPED_TRACE(name);
    PENSTOCK_MODEL(path, name);
    const ProfiledModel f(path);
    PlanRequest request{.ranks = 3, .allow_batch_coupling = true, .effort = 1'000'000};
    const Planned fastest = f.plan(request);
    for (const double tolerance : {0.01, 0.3}) {
      request.tolerance = tolerance;
      const Planned simple = f.plan(request);
      const double step_s = simple.plan.prediction->step_s;
      EXPECT_LE(step_s, fastest.plan.prediction->step_s * (1 + tolerance));
      EXPECT_LE(complexity(f, simple), complexity(f, fastest));
      EXPECT_GE(simple.gap(), 0);
    }
  }
}

TEST(Simplest, TakesOneRankWhereAnyStepWillDo) {
  PENSTOCK_MODEL(path, "transformer-text");
  const ProfiledModel f(path);
  const Planned planned = f.plan({.ranks = 3, .tolerance = 1e6});
  EXPECT_EQ(planned.plan.ranks() * planned.plan.data_parallel, 1);
  ASSERT_TRUE(planned.fastest);
  EXPECT_GT(planned.fastest->ranks * planned.fastest->data_parallel, 1);
  EXPECT_LT(planned.fastest->best_s, planned.plan.prediction->step_s);
}

/// Cut between its children alone a model may be too short for a schedule.
TEST(Simplest, LooksAtSchedulesThatCoarseCutsHaveTooFewUnitsFor) {
  PENSTOCK_MODEL(path, "llama");
  const ProfiledModel f(path);
  const Planned planned = f.plan({.ranks = 2,
                                  .schedules = {"interleaved-1f1b"},
                                  .data_parallel = 1,
                                  .tolerance = 0.3,
                                  .effort = 1'000'000});
  EXPECT_EQ(planned.plan.schedule, "interleaved-1f1b");
  EXPECT_EQ(planned.plan.ranks(), 2);
}

TEST(Simplest, PrefersWholeModulesWithinTheTolerance) {
  int preferred = 0;
  for (const char* name : {"llama", "bert", "transformer-text"}) {
    SCOPED_TRACE(name);
    PENSTOCK_MODEL(path, name);
    const ProfiledModel f(path);
    PlanRequest request{.ranks = 2, .data_parallel = 1, .effort = 1'000'000};
    const Planned fastest = f.plan(request);
    request.tolerance = 0.3;
    const Planned simple = f.plan(request);
    EXPECT_GE(divided(f, fastest), divided(f, simple));
    preferred += divided(f, fastest) > divided(f, simple);
  }
  EXPECT_GT(preferred, 0);
}

TEST(Simplest, NamesAPlanOnFewerRanksThatIsLittleSlower) {
  PENSTOCK_MODEL(path, "everything");
  const ProfiledModel f(path);
  PlanRequest request{.ranks = 4, .data_parallel = 1, .allow_batch_coupling = true};
  const Planned planned = f.plan(request);
  ASSERT_EQ(planned.plan.ranks(), 4);
  ASSERT_TRUE(planned.fewer_ranks);
  EXPECT_LT(planned.fewer_ranks->ranks, 4);
  EXPECT_LE(planned.fewer_ranks->best_s, planned.plan.prediction->step_s * 1.05);
  request.ranks = planned.fewer_ranks->ranks;
  EXPECT_LE(f.plan(request).plan.prediction->step_s, planned.fewer_ranks->best_s);
}

TEST(WholeModules, AreNotDivided) {
  PENSTOCK_MODEL(path, "transformer-text");
  const ProfiledModel f(path);
  const std::string pattern = "layers.*";
  const Planned planned = f.plan({.ranks = 3, .data_parallel = 1, .whole_modules = {pattern}});
  ASSERT_GT(planned.plan.stages.size(), 1U);
  const std::vector<int>& stages = planned.slicing.stage_of_operator;
  std::vector<OperatorId> begins;
  for (size_t op = 1; op < stages.size(); ++op) {
    if (stages[op] != stages[op - 1]) begins.push_back(static_cast<OperatorId>(op));
  }
  EXPECT_EQ(outside_whole_modules(f.model, begins, {pattern}), begins);
}

TEST(WholeModules, OfNoSuchNameAreRefusedWithTheNearest) {
  PENSTOCK_MODEL(path, "transformer-text");
  const ProfiledModel f(path);
  EXPECT_THAT(f.error({.ranks = 2, .whole_modules = {"layer.*"}}),
              AllOf(HasSubstr("--whole-modules: no module of"), HasSubstr("matches layer.*"),
                    HasSubstr("Did you mean")));
}

}  // namespace
}  // namespace penstock::test
