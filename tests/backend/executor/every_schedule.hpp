// Networks split for each schedule: a chain, skip connections, tied weights and buffers.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pipeline/program/schedule.hpp"
#include "tests/backend/executor/random_data.hpp"
#include "tests/backend/executor/run.hpp"

namespace penstock::test {

struct Network {
  const char* model;
  Loss loss;
  std::vector<std::string> four_stages;
};

inline const Network tied{
    "everything-f64", Loss::cross_entropy, {"", "block", "block.layer.multihead_attn", "norm"}};
inline const Network skips{"unet-f64", Loss::mse, {"", "down.1", "middle", "up.0"}};
inline const Network chain{
    "pippy-f64", Loss::cross_entropy, {"", "layer1", "layer2", "output_proj"}};

class WithSchedule : public ::testing::TestWithParam<Schedule> {
 protected:
  /// On two ranks, each with as many stages as the schedule wants, two where it does not care.
  Plan split(const Network& network, const std::string& model, int microbatches) {
    const Schedule& schedule = GetParam();
    const int stages_per_rank = schedule.stages_per_rank > 0 ? schedule.stages_per_rank : 2;
    std::vector<std::string> begins = network.four_stages;
    if (stages_per_rank == 1) begins = {begins[0], begins[2]};
    const Program program = schedule.generate({2, stages_per_rank, microbatches});
    Plan plan = plan_of(model, random_data(folder_, model, network.loss), begins, microbatches, 2,
                        std::string(schedule.name), program.rank_of_stage);
    plan.job.loss = network.loss;
    return plan;
  }

  TemporaryFolder folder_;
};

inline std::string name_of(const ::testing::TestParamInfo<Schedule>& info) {
  std::string name(info.param.name);
  std::erase(name, '-');
  return name;
}

}  // namespace penstock::test
