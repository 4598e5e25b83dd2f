// Guarantees of the estimates from the sizes measured so far, and of the summary of probes.
#include "backend/profiler/timing/budget.hpp"

#include <gmock/gmock.h>

#include "backend/profiler/timing/probes.hpp"

namespace penstock::profiler {
namespace {

TEST(ProfilingBudget, TakesAStepAsFastAsTheBestSizeMakesIt) {
  Budget budget(32);
  EXPECT_EQ(budget.step_s(), 0);
  budget.add_pass(1, 0.1);  // 32 x 0.1 s
  EXPECT_DOUBLE_EQ(budget.step_s(), 3.2);
  budget.add_pass(4, 0.2);  // 8 x 0.2 s
  EXPECT_DOUBLE_EQ(budget.step_s(), 1.6);
  budget.add_pass(16, 1);
  EXPECT_DOUBLE_EQ(budget.step_s(), 1.6);
}

TEST(ProfilingBudget, ExpectsMemoryInProportionToTheLargestSize) {
  Budget budget(32);
  EXPECT_EQ(budget.bytes(8), 0);
  budget.add_bytes(4, 400);
  budget.add_bytes(2, 900);
  EXPECT_DOUBLE_EQ(budget.bytes(8), 800);
}

TEST(ProfilingBudget, KnowsWhatAnEarlierRunMeasured) {
  MicrobatchCosts costs{.microbatch = 2};
  costs.loss_forward.mean_s = 0.5;
  costs.units.resize(2);
  costs.units[0].times.forward.mean_s = 1;
  costs.units[1].times.backward.mean_s = 2.5;
  costs.units[0].held.forward = {100, 100};
  costs.units[1].held = {.forward = {50, 60}, .backward = {-50, 30}};
  Budget budget(4);
  budget.add(costs);
  EXPECT_DOUBLE_EQ(budget.step_s(), 8);
  EXPECT_DOUBLE_EQ(budget.bytes(4), 360);
}

TEST(Probes, GiveTheMeanAndTheLargerDrift) {
  const Probe all = combine({{1, 10, 0}, {3, 10, 0}, {2, 13, 0}});
  EXPECT_DOUBLE_EQ(all.gemm_s, 2);
  EXPECT_DOUBLE_EQ(all.copy_s, 11);
  EXPECT_DOUBLE_EQ(all.spread, 1);  // 1 to 3 around 2
}

}  // namespace
}  // namespace penstock::profiler
