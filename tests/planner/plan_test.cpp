// The planner on real exported models with made-up costs.
#include "planner/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "graph/error.hpp"
#include "graph/file.hpp"
#include "graph/pt2.hpp"
#include "simulator/plan_costs.hpp"
#include "synthetic_profile.hpp"
#include "tests/models/models.hpp"
#include "tests/pipeline/support.hpp"

namespace penstock::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A model, and a profile of it in a folder of its own.
struct Fixture {
  TemporaryFolder folder;
  Graph model;
  Profile profile;

  explicit Fixture(const std::string& path, const SyntheticDevice& device = {})
      : model(read_pt2(path)),
        profile(written(synthetic_profile(model, {1, 2, 4}, 8, device),
                        folder.path() / "profile.json")) {}

  Planned plan(const PlanRequest& request, const Cluster* cluster = nullptr) const {
    return make_plan(profile, model, cluster, request);
  }
  std::string error(const PlanRequest& request) const {
    return input_error([&] { plan(request); });
  }
};

/// All but `adaptive`, which the command line makes.
const std::vector<std::string> named{"gpipe", "1f1b", "looped-bfs", "interleaved-1f1b", "zb-h1"};

/// What `simulate` does with a plan file.
Simulation simulate_file(const Fixture& f, const std::filesystem::path& path) {
  const Plan plan = read_plan(path);
  const Slicing slicing = slice(plan, f.model, analyse(f.model));
  return simulate(lowered_program(plan, slicing), plan_costs(plan, f.model, slicing, f.profile),
                  plan_network(f.profile, nullptr), {});
}

std::string write_plan(const Fixture& f, const Planned& planned) {
  const std::filesystem::path path = f.folder.path() / "plan.yaml";
  write_file(path, to_yaml(planned.plan, path));
  return path.string();
}

TEST(Plan, PredictsWhatItsFileSimulatesToTheLastBit) {
  for (const char* name : {"pippy", "everything", "unet", "transformer-text"}) {
    SCOPED_TRACE(name);
    PENSTOCK_MODEL(path, name);
    const Fixture f(path);
    const Planned planned = f.plan({.ranks = 3, .schedules = named, .allow_batch_coupling = true});
    const Simulation run = simulate_file(f, write_plan(f, planned));
    EXPECT_EQ(run.makespan_s, planned.plan.prediction->step_s);
    EXPECT_EQ(run.bubble, planned.plan.prediction->bubble);
    EXPECT_EQ(run.peak_memory_bytes, planned.plan.prediction->peak_memory_bytes);
    const Plan read = read_plan(f.folder.path() / "plan.yaml");
    EXPECT_EQ(read.prediction->step_s, run.makespan_s);
    EXPECT_EQ(read.prediction->lower_bound_s, planned.lower_bound_s);
  }
}

TEST(Plan, IsTheSameToTheByteInTwoRuns) {
  PENSTOCK_MODEL(path, "transformer-text");
  const Fixture f(path);
  const PlanRequest request{.ranks = 2};
  const std::filesystem::path file = f.folder.path() / "plan.yaml";
  EXPECT_EQ(to_yaml(f.plan(request).plan, file), to_yaml(f.plan(request).plan, file));
}

TEST(Plan, SaysWhatItWasMadeFrom) {
  PENSTOCK_MODEL(path, "pippy");
  const Fixture f(path);
  const Plan plan = read_plan(write_plan(f, f.plan({.ranks = 2})));
  EXPECT_EQ(plan.model_sha256, f.model.sha256);
  EXPECT_EQ(plan.profile->sha256, sha256_of_file(f.profile.path));
  EXPECT_FALSE(plan.cluster);
  EXPECT_EQ(plan.microbatches * plan.microbatch, 8);
}

TEST(Plan, IsNeverFasterThanItsBounds) {
  for (const char* name : {"pippy", "iterative", "everything", "unet", "lstm", "parameters",
                           "outputs", "image_classifier", "transformer-text", "t5", "resnet"}) {
    SCOPED_TRACE(name);
    PENSTOCK_MODEL(path, name);
    for (const double link : {1e7, 1e9}) {
      const Fixture f(path, {.link_bytes_per_s = link});
      for (int ranks = 1; ranks <= 3; ++ranks) {
        const Planned planned =
            f.plan({.ranks = ranks, .allow_batch_coupling = true, .effort = 1'000'000});
        EXPECT_GE(planned.gap(), 0);
        EXPECT_LE(planned.lower_bound_s, planned.split_bound_s);
        EXPECT_LE(planned.split_bound_s, planned.plan.prediction->step_s);
      }
    }
  }
}

TEST(Plan, TakesManualSplits) {
  PENSTOCK_MODEL(path, "pippy");
  const Fixture f(path);
  const Planned planned = f.plan({.microbatches = 4, .split = {"layer0:end", "layer1:end"}});
  ASSERT_EQ(planned.plan.stages.size(), 3u);
  EXPECT_EQ(planned.plan.stages[0].begin, "");
  EXPECT_EQ(planned.plan.stages[1].begin, "layer1");
  EXPECT_EQ(planned.plan.stages[2].begin, "layer2");
  EXPECT_EQ(planned.plan.microbatches, 4);
  EXPECT_GE(planned.gap(), 0);
}

TEST(Plan, SplitsBehindEveryCallOfARepeatedModuleAndSharesItsWeights) {
  PENSTOCK_MODEL(path, "iterative");
  const Fixture f(path);
  const Planned planned =
      f.plan({.schedules = named, .microbatches = 4, .split = {"iter_block:end"}});
  ASSERT_EQ(planned.plan.stages.size(), 4u);
  EXPECT_EQ(planned.plan.stages[1].begin, "iter_block@1");
  EXPECT_EQ(planned.plan.stages[3].begin, "output_proj");
  EXPECT_FALSE(planned.plan.shared_parameters.empty());
  for (const auto& [name, how] : planned.plan.shared_parameters)
    EXPECT_EQ(how, "replicate") << name;
  const Simulation run = simulate_file(f, write_plan(f, planned));
  EXPECT_EQ(run.makespan_s, planned.plan.prediction->step_s);
}

TEST(Plan, TriesSchedulesAndMicrobatchesForAManualSplit) {
  PENSTOCK_MODEL(path, "pippy");
  const Fixture f(path);
  const Planned planned = f.plan({.split = {"layer1:beginning"}});
  std::set<std::string> schedules;
  for (const Searched& one : planned.searched) {
    EXPECT_EQ(one.splits, 1);
    schedules.insert(one.schedule);
  }
  EXPECT_EQ(planned.layouts, 5 * 3);  // gpipe, 1f1b, zb-h1, zb-h2, adaptive; sizes 1, 2 and 4
  EXPECT_GE(schedules.size(), 2U);
}

// Sums of a few thousand times: far fewer than 1e6 roundings of 1e-16.
TEST(Plan, SaysWhereTheTimeGoesThatTheBoundLacks) {
  PENSTOCK_MODEL(path, "transformer-text");
  const Fixture f(path);
  const Planned free = f.plan({.ranks = 3, .schedules = {"zbv"}, .stages_per_rank = 2});
  ASSERT_GT(free.gap(), 0.02);
  ASSERT_TRUE(free.time);
  const double all_s = free.plan.prediction->step_s * free.plan.ranks();
  EXPECT_NEAR(free.time->total_s(), all_s, 1e-10 * all_s);
  EXPECT_EQ(free.time->recompute_s, 0);
  EXPECT_NEAR(free.time->idle.total_s(), free.plan.prediction->bubble * all_s, 1e-10 * all_s);
  const int64_t peak = *std::ranges::max_element(free.plan.prediction->peak_memory_bytes);
  const Planned tight = f.plan(
      {.ranks = 3, .schedules = {"zbv"}, .stages_per_rank = 2, .memory_bytes = peak * 9 / 10});
  ASSERT_TRUE(tight.time);
  EXPECT_GT(tight.time->recompute_s, 0);
  EXPECT_NEAR(tight.time->work_s, free.time->work_s, 0.1 * free.time->work_s);
}

TEST(Plan, MoreMemoryIsNeverSlower) {
  PENSTOCK_MODEL(path, "transformer-text");
  const Fixture f(path);
  const std::vector<std::string> some{"interleaved-1f1b", "interleaved-zb"};
  const Planned free = f.plan({.ranks = 3, .schedules = some, .stages_per_rank = 2});
  const int64_t peak = *std::ranges::max_element(free.plan.prediction->peak_memory_bytes);
  double before = 1e300;
  for (const int64_t percent : {60, 80, 90, 95, 100, 200}) {
    const PlanRequest request{
        .ranks = 3, .schedules = some, .stages_per_rank = 2, .memory_bytes = peak * percent / 100};
    if (!f.error(request).empty()) continue;
    const Planned planned = f.plan(request);
    for (const int64_t bytes : planned.plan.prediction->peak_memory_bytes)
      EXPECT_LE(bytes, *request.memory_bytes);
    EXPECT_LE(planned.plan.prediction->step_s, before);
    before = planned.plan.prediction->step_s;
  }
  EXPECT_EQ(before, free.plan.prediction->step_s);
}

TEST(Plan, SaysWhatWouldFitWhereNothingDoes) {
  PENSTOCK_MODEL(path, "transformer-text");
  const Fixture f(path);
  const std::string message = f.error({.ranks = 2, .memory_bytes = 1000});
  EXPECT_THAT(message,
              AllOf(HasSubstr("--memory"), HasSubstr("no plan fits"), HasSubstr("too much")));
  // The memory that it names is enough, and a byte less than the least peak is not.
  const std::string before = "It would fit with ";
  const size_t at = message.find(before) + before.size();
  const int64_t mebibytes = std::stoll(message.substr(at));
  EXPECT_EQ(f.error({.ranks = 2, .memory_bytes = mebibytes << 20}), "");
  const std::string restricted = f.error(
      {.ranks = 2, .schedules = {"gpipe"}, .microbatches = 2, .memory_bytes = mebibytes << 20});
  if (!restricted.empty()) {
    EXPECT_THAT(restricted, HasSubstr("--schedule"));
  }
}

TEST(Plan, SharesTheMachinesMemoryAmongLocalRanks) {
  PENSTOCK_MODEL(path, "pippy");
  const Fixture f(path, {.memory_bytes = 1 << 30});
  const Planned two = f.plan({.ranks = 2});
  ASSERT_EQ(two.plan.ranks() * two.plan.data_parallel, 2);
  EXPECT_EQ(two.memory.most, 1 << 29);
  EXPECT_EQ(f.plan({.ranks = 2, .memory_bytes = 1 << 28}).memory.most, 1 << 28);
}

TEST(Plan, RefusesToChooseMicrobatchesForACoupledBatch) {
  PENSTOCK_MODEL(path, "transformer-f32");
  const Fixture f(path);
  ASSERT_EQ(f.model.batch_coupled, true);
  EXPECT_THAT(f.error({.ranks = 2}),
              AllOf(HasSubstr("--microbatches"), HasSubstr("--allow-batch-coupling")));
  EXPECT_EQ(f.plan({.ranks = 2, .microbatches = 4}).warnings.size(), 1u);
  EXPECT_EQ(f.plan({.ranks = 2, .allow_batch_coupling = true}).warnings.size(), 1u);
}

TEST(Plan, WarnsWhereCouplingIsUnknown) {
  PENSTOCK_MODEL(path, "pippy");
  Fixture f(path);
  EXPECT_TRUE(f.plan({.ranks = 2}).warnings.empty());
  f.model.batch_coupled.reset();
  EXPECT_EQ(f.plan({.ranks = 2}).warnings.size(), 1u);
}

TEST(Plan, NamesWhatIsWrongWithARequest) {
  PENSTOCK_MODEL(path, "pippy");
  const Fixture f(path);
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
  const Fixture f(path);
  const Graph model = read_pt2(other);
  EXPECT_THAT(input_error([&] { make_plan(f.profile, model, nullptr, {}); }), HasSubstr("profile"));
}

TEST(Plan, TakesRanksAndMemoryFromTheCluster) {
  PENSTOCK_MODEL(path, "pippy");
  const Fixture f(path);
  const std::filesystem::path file = f.folder.write(
      "cluster.yaml",
      "penstock: cluster\nranks: 3\nmemory: 4GiB\nlink: {latency: 1us, bandwidth: 10GB/s}\n");
  const Cluster cluster = read_cluster(file);
  const Planned planned = f.plan({}, &cluster);
  EXPECT_EQ(planned.devices, 3);
  EXPECT_EQ(planned.memory.most, int64_t{4} << 30);
  EXPECT_EQ(planned.plan.cluster->sha256, sha256_of_file(file));
  EXPECT_THAT(input_error([&] { f.plan({.ranks = 4}, &cluster); }), HasSubstr("at most 3"));
}

TEST(Plan, ChoosesTheDevicesOfAMixedCluster) {
  PENSTOCK_MODEL(path, "transformer-f32");
  const Fixture f(path);
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
  EXPECT_EQ(two.memory.most, int64_t{64} << 30) << "of the devices that it uses";
  // The file's simulation says the same.
  const Slicing slicing = slice(two.plan, f.model, analyse(f.model));
  const Cluster used = on_devices(cluster, two.plan.devices);
  const Costs costs = plan_costs(two.plan, f.model, slicing, f.profile, &used);
  const Simulation run = simulate(lowered_program(two.plan, slicing), costs, Network(used));
  EXPECT_EQ(run.makespan_s, two.plan.prediction->step_s);
}

}  // namespace
}  // namespace penstock::test
