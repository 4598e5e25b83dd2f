// Every schedule trains like the unsplit model: through skip connections, tied weights and buffers,
// with the backward whole or in two parts, with stages handed over in memory or sent.
#include <gmock/gmock.h>

#include "tests/backend/executor/every_schedule.hpp"
#include "tests/models/models.hpp"

namespace penstock {
namespace {

using test::difference;
using test::Network;
using test::plan_of;
using test::run_plan;
using test::RunResult;

class EverySchedule : public test::WithSchedule {
 protected:
  void expect_as_unsplit(const Network& network, const std::string& model) {
    constexpr int steps = 2, microbatches = 4;
    constexpr double tolerance = 1e-10;  // float64: sums in another order differ by some 1e-16 each
    const Plan plan = split(network, model, microbatches);
    Plan whole = plan_of(model, plan.job.data.front(), {""}, microbatches, 2);
    whole.job.loss = network.loss;
    const RunResult reference = run_plan(whole, steps);
    const RunResult run = run_plan(plan, steps);
    ASSERT_EQ(run.losses.size(), reference.losses.size());
    for (size_t step = 0; step < run.losses.size(); ++step) {
      EXPECT_NEAR(run.losses[step], reference.losses[step], tolerance * reference.losses[step]);
    }
    EXPECT_LE(difference(run.gradients, reference.gradients), tolerance);
    EXPECT_LE(difference(run.parameters, reference.parameters), tolerance);
  }
};

TEST_P(EverySchedule, TrainsAChainAsUnsplit) {
  PENSTOCK_MODEL(model, test::chain.model);
  expect_as_unsplit(test::chain, model);
}

TEST_P(EverySchedule, TrainsAUNetAsUnsplit) {
  PENSTOCK_MODEL(model, test::skips.model);
  expect_as_unsplit(test::skips, model);
}

TEST_P(EverySchedule, TrainsTiedWeightsAndBuffersAsUnsplit) {
  PENSTOCK_MODEL(model, test::tied.model);
  expect_as_unsplit(test::tied, model);
}

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedule, ::testing::ValuesIn(schedules()), test::name_of);

}  // namespace
}  // namespace penstock
