// What the tests of whole profiles share: profiles that one rank makes of small models.
#pragma once

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/profiler/profiler.hpp"
#include "base/file.hpp"
#include "graph/operators/facts.hpp"
#include "pipeline/profile/profile.hpp"
#include "tests/models/models.hpp"

namespace penstock::profiler {

using Json = nlohmann::json;

/// A `load_batch_s` that is written into a file of measurements shows whether they were repeated.
inline constexpr double mark = 123.5;

struct Case {
  std::string model, loss;
};

inline std::string name_of_case(const ::testing::TestParamInfo<Case>& param) {
  std::string name = param.param.model;
  std::ranges::replace(name, '-', '_');
  return name;
}

class ProfilerTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write_job(const std::string& model, const std::string& loss, int batch = 4,
                        const std::string& optimizer = "{kind: sgd, learning_rate: 0.1}") {
    std::string path = folder_ / "job.yaml";
    write_file(path, "penstock: job\nmodel: " + model + "\nloss: " + loss + "\noptimizer: " +
                         optimizer + "\nglobal_batch: " + std::to_string(batch) + "\n");
    return path;
  }
  Profile profile(const std::string& job, Request how = {}) {
    const auto communicators = make_in_process(1);
    how.job = job;
    how.partial = partial_;
    run(how, *communicators[0], [&](const Json& event) { events_.push_back(event); });
    return read_profile(partial_);
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) /
      ("profiler-" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) +
       std::to_string(getpid()));
  const std::string partial_ = folder_ / "profile.json.partial";
  std::vector<Json> events_;
};

inline double sum(const auto& costs, Measured ActionTimes::*action) {
  double seconds = 0;
  for (const auto& cost : costs) seconds += (cost.times.*action).mean_s;
  return seconds;
}

inline constexpr Measured ActionTimes::*actions[] = {&ActionTimes::forward, &ActionTimes::backward,
                                                     &ActionTimes::backward_input,
                                                     &ActionTimes::backward_weight};

inline constexpr MemoryChange HeldBytes::*changes[] = {&HeldBytes::forward, &HeldBytes::backward,
                                                       &HeldBytes::backward_input,
                                                       &HeldBytes::backward_weight};

inline void expect_consistent(const MicrobatchCosts& costs, const Graph& graph) {
  ASSERT_EQ(costs.operators.size(), graph.operators.size());
  for (size_t i = 0; i < graph.operators.size(); ++i) {
    EXPECT_EQ(costs.operators[i].name, graph.operators[i].name);
    EXPECT_EQ(costs.operators[i].target, full_name(graph.operators[i]));
  }
  OperatorId next = 0;
  for (const UnitCost& unit : costs.units) {
    EXPECT_EQ(unit.begin, next) << unit.label;
    next = unit.end;
    const std::span own = std::span(costs.operators).subspan(unit.begin, unit.end - unit.begin);
    for (const auto action : actions) {
      // Each of the n terms of a sum is rounded by at most 2^-53 of it: below 1000 terms, 1e-12.
      const double seconds = (unit.times.*action).mean_s;
      EXPECT_NEAR(sum(own, action), seconds, seconds * 1e-12) << unit.label;
      EXPECT_GT((unit.times.*action).repetitions, 0) << unit.label;
    }
    HeldSums sums;
    for (const OperatorCost& op : own) {
      sums.add(op.held);
      for (const auto action : changes) {
        EXPECT_GE((op.held.*action).peak, std::max<int64_t>((op.held.*action).net, 0)) << op.name;
      }
    }
    EXPECT_EQ(sums.forward, unit.held.forward) << unit.label;
    EXPECT_EQ(sums.backward, unit.held.backward) << unit.label;
    EXPECT_EQ(sums.backward_input, unit.held.backward_input) << unit.label;
    EXPECT_EQ(sums.backward_weight, unit.held.backward_weight) << unit.label;
  }
  EXPECT_EQ(next, static_cast<OperatorId>(graph.operators.size()));
}

}  // namespace penstock::profiler
