// Requests to the planner: defaults, refusals, warnings, clusters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/file.hpp"
#include "simulator/costs/plan_costs.hpp"
#include "tests/models/models.hpp"
#include "tests/planner/profiled_model.hpp"

namespace penstock::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Plan, SaysWhatWouldFitWhereNothingDoes) {
  PENSTOCK_MODEL(path, "transformer-text");
  const ProfiledModel f(path);
  PlanRequest request{.ranks = 2, .memory_bytes = 1000, .effort = 1'000'000};
  const std::string message = f.error(request);
  EXPECT_THAT(message,
              AllOf(HasSubstr("--memory"), HasSubstr("no plan fits"), HasSubstr("too much")));
  // The memory that it names is enough.
  const std::string before = "It would fit with ";
  const size_t at = message.find(before) + before.size();
  const int64_t mebibytes = std::stoll(message.substr(at));
  request.memory_bytes = mebibytes << 20;
  EXPECT_EQ(f.error(request), "");
  request.schedules = {"gpipe"};
  request.microbatches = 2;
  const std::string restricted = f.error(request);
  if (!restricted.empty()) {
    EXPECT_THAT(restricted, HasSubstr("--schedule"));
  }
}

TEST(Plan, SharesTheMachinesMemoryAmongLocalRanks) {
  PENSTOCK_MODEL(path, "pippy");
  const ProfiledModel f(path, {.memory_bytes = 1 << 30});
  const Planned two = f.plan({.ranks = 2});
  ASSERT_EQ(two.plan.ranks() * two.plan.data_parallel, 2);
  EXPECT_EQ(two.memory.max_bytes, 1 << 29);
  EXPECT_EQ(f.plan({.ranks = 2, .memory_bytes = 1 << 28}).memory.max_bytes, 1 << 28);
}

TEST(Plan, RefusesToChooseMicrobatchesForACoupledBatch) {
  PENSTOCK_MODEL(path, "transformer-f32");
  const ProfiledModel f(path);
  ASSERT_EQ(f.model.batch_coupled, true);
  EXPECT_THAT(f.error({.ranks = 2}),
              AllOf(HasSubstr("--microbatches"), HasSubstr("--allow-batch-coupling")));
  EXPECT_EQ(f.plan({.ranks = 2, .microbatches = 4, .effort = 1'000'000}).warnings.size(), 1u);
  const Planned any = f.plan({.ranks = 2, .allow_batch_coupling = true, .effort = 1'000'000});
  EXPECT_EQ(any.warnings.size(), 1u);
}

TEST(Plan, WarnsWhereCouplingIsUnknown) {
  PENSTOCK_MODEL(path, "pippy");
  ProfiledModel f(path);
  EXPECT_TRUE(f.plan({.ranks = 2}).warnings.empty());
  f.model.batch_coupled.reset();
  EXPECT_EQ(f.plan({.ranks = 2}).warnings.size(), 1u);
}

TEST(Plan, NamesWhatIsWrongWithARequest) {
  PENSTOCK_MODEL(path, "pippy");
  const ProfiledModel f(path);
  EXPECT_THAT(f.error({.ranks = 2, .microbatches = 3}),
              AllOf(HasSubstr("3 microbatches"), HasSubstr("2, 4")));
  EXPECT_THAT(f.error({.ranks = 2, .microbatches = 1, .data_parallel = 1}),
              AllOf(HasSubstr("8 samples"), HasSubstr("2, 4, 8")));
  EXPECT_THAT(f.error({.ranks = 2, .schedules = {"1f1"}}), HasSubstr("1f1b"));
  EXPECT_THAT(f.error({.ranks = 2, .stages_per_rank = 999}), HasSubstr("units"));
  EXPECT_THAT(f.error({.ranks = 2, .data_parallel = 4}), HasSubstr("--ranks 4"));
  EXPECT_THAT(f.error({.ranks = 0}), HasSubstr("--ranks"));
  EXPECT_THAT(f.error({.ranks = 4, .split = {"layer0:end"}}),
              AllOf(HasSubstr("2 stages"), HasSubstr("4")));
  EXPECT_THAT(f.error({.split = {"layer9:end"}}), HasSubstr("--split"));
  EXPECT_THAT(f.error({.split = {"layer0:beginning"}}), HasSubstr("--split"));
  EXPECT_THAT(f.error({.split = {"layer0:end", "layer1:beginning"}}), HasSubstr("adds no split"));
  EXPECT_THAT(f.error({.split = {"output_proj:end"}}), HasSubstr("--split"));
}

TEST(Plan, RefusesAProfileOfAnotherModel) {
  PENSTOCK_MODEL(path, "pippy");
  PENSTOCK_MODEL(other, "iterative");
  const ProfiledModel f(path);
  const Graph model = read_pt2(other);
  EXPECT_THAT(input_error([&] { make_plan(f.profile, model, nullptr, {}); }), HasSubstr("profile"));
}

TEST(Plan, TakesRanksAndMemoryFromTheCluster) {
  PENSTOCK_MODEL(path, "pippy");
  const ProfiledModel f(path);
  const std::filesystem::path file = f.folder.write(
      "cluster.yaml",
      "penstock: cluster\nranks: 3\nmemory: 4GiB\nlink: {latency: 1us, bandwidth: 10GB/s}\n");
  const Cluster cluster = read_cluster(file);
  const Planned planned = f.plan({}, &cluster);
  EXPECT_EQ(planned.devices, 3);
  EXPECT_EQ(planned.memory.max_bytes, int64_t{4} << 30);
  EXPECT_EQ(planned.plan.cluster->sha256, sha256_of_file(file));
  EXPECT_THAT(input_error([&] { f.plan({.ranks = 4}, &cluster); }), HasSubstr("at most 3"));
}

TEST(Plan, ChoosesTheDevicesOfAMixedCluster) {
  PENSTOCK_MODEL(path, "transformer-f32");
  const ProfiledModel f(path);
  const std::filesystem::path file =
      f.folder.write("mixed.yaml",
                     "penstock: cluster\nnodes:\n"
                     "  - {count: 2, devices: 1, device: slow, speed: 0.1, memory: 16GiB}\n"
                     "  - {count: 2, devices: 1, device: fast, memory: 64GiB}\n"
                     "network: {latency: 1us}\n");
  const Cluster cluster = read_cluster(file);
  const Planned best =
      f.plan({.schedules = {"1f1b"}, .data_parallel = 1, .allow_batch_coupling = true}, &cluster);
  EXPECT_EQ(best.plan.devices.front(), 2) << "as listed slow ones come first";
  // One rank uses one device; whichever plan won uses no slower one before a faster one is left.
  const Planned two =
      f.plan({.ranks = 2, .schedules = {"1f1b"}, .data_parallel = 1, .allow_batch_coupling = true},
             &cluster);
  EXPECT_THAT(two.plan.devices, ::testing::ElementsAre(2, 3));
  EXPECT_EQ(two.memory.max_bytes, int64_t{64} << 30) << "of the devices that it uses";
  // The file's simulation says the same.
  const Slicing slicing = slice(two.plan, f.model, analyse(f.model));
  const Cluster used = on_devices(cluster, two.plan.devices);
  const Costs costs = plan_costs(two.plan, f.model, slicing, f.profile, &used);
  const Simulation run = simulate(lowered_program(two.plan, slicing), costs, Network(used));
  EXPECT_EQ(run.makespan_s, two.plan.prediction->step_s);
}

}  // namespace
}  // namespace penstock::test
