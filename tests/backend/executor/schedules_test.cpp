// Every schedule trains like the unsplit model: through skip connections, tied weights and buffers,
// with the backward whole or in two parts, with stages handed over in memory or sent.
#include <gmock/gmock.h>

#include "graph/pt2.hpp"
#include "pipeline/schedule.hpp"
#include "tests/backend/executor/random_data.hpp"
#include "tests/backend/executor/run.hpp"
#include "tests/backend/support.hpp"
#include "tests/models/models.hpp"

namespace penstock {
namespace {

using test::difference;
using test::plan_of;
using test::run_plan;
using test::RunResult;

struct Network {
  const char* model;
  Loss loss;
  std::vector<std::string> four_stages;
};

const Network tied{
    "everything-f64", Loss::cross_entropy, {"", "block", "block.layer.multihead_attn", "norm"}};
const Network skips{"unet-f64", Loss::mse, {"", "down.1", "middle", "up.0"}};
const Network chain{"pippy-f64", Loss::cross_entropy, {"", "layer1", "layer2", "output_proj"}};

class EverySchedule : public ::testing::TestWithParam<Schedule> {
 protected:
  /// Two ranks, each with as many stages as the schedule wants, two where it does not care.
  Plan split(const Network& network, const std::string& model, int microbatches) const {
    const Schedule& schedule = GetParam();
    const int stages_per_rank = schedule.stages_per_rank > 0 ? schedule.stages_per_rank : 2;
    std::vector<std::string> begins = network.four_stages;
    if (stages_per_rank == 1) begins = {begins[0], begins[2]};
    const Program program = schedule.generate({2, stages_per_rank, microbatches});
    return plan_of(model, data_, begins, microbatches, 2, std::string(schedule.name),
                   program.rank_of_stage);
  }

  void expect_as_unsplit(const Network& network, const std::string& model) {
    constexpr int steps = 2, microbatches = 4;
    constexpr double tolerance = 1e-10;  // float64: sums in another order differ by some 1e-16 each
    data_ = test::random_data(folder_, model, network.loss);
    Plan whole = plan_of(model, data_, {""}, microbatches, 2);
    Plan plan = split(network, model, microbatches);
    whole.job.loss = plan.job.loss = network.loss;
    const RunResult reference = run_plan(whole, steps);
    const RunResult run = run_plan(plan, steps);
    ASSERT_EQ(run.losses.size(), reference.losses.size());
    for (size_t step = 0; step < run.losses.size(); ++step) {
      EXPECT_NEAR(run.losses[step], reference.losses[step], tolerance * reference.losses[step]);
    }
    EXPECT_LE(difference(run.gradients, reference.gradients), tolerance);
    EXPECT_LE(difference(run.parameters, reference.parameters), tolerance);
  }

  test::TemporaryFolder folder_;
  std::string data_;
};

TEST_P(EverySchedule, TrainsAChainAsUnsplit) {
  PENSTOCK_MODEL(model, "pippy-f64");
  expect_as_unsplit(chain, model);
}

TEST_P(EverySchedule, TrainsAUNetAsUnsplit) {
  PENSTOCK_MODEL(model, "unet-f64");
  expect_as_unsplit(skips, model);
}

TEST_P(EverySchedule, TrainsTiedWeightsAndBuffersAsUnsplit) {
  PENSTOCK_MODEL(model, "everything-f64");
  expect_as_unsplit(tied, model);
}

std::string name_of(const ::testing::TestParamInfo<Schedule>& info) {
  std::string name(info.param.name);
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedule, ::testing::ValuesIn(schedules()), name_of);

}  // namespace
}  // namespace penstock
