// The planner on real exported models with made-up costs.
#include "planner/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/error.hpp"
#include "base/file.hpp"
#include "simulator/costs/plan_costs.hpp"
#include "tests/models/models.hpp"
#include "tests/planner/profiled_model.hpp"

namespace penstock::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// All but `adaptive`, which the command line makes.
const std::vector<std::string> named{"gpipe", "1f1b", "looped-bfs", "interleaved-1f1b", "zb-h1"};

/// As `simulate` does with a plan file.
Simulation simulate_file(const ProfiledModel& f, const std::filesystem::path& path) {
  const Plan plan = read_plan(path);
  const Slicing slicing = slice(plan, f.model, analyse(f.model));
  return simulate(lowered_program(plan, slicing), plan_costs(plan, f.model, slicing, f.profile),
                  plan_network(f.profile, nullptr), {});
}

std::string write_plan(const ProfiledModel& f, const Planned& planned) {
  const std::filesystem::path path = f.folder.path() / "plan.yaml";
  write_file(path, to_yaml(planned.plan, path));
  return path.string();
}

TEST(Plan, PredictsWhatItsFileSimulatesToTheLastBit) {
  for (const char* name : {"pippy", "everything", "unet", "transformer-text"}) {
    SCOPED_TRACE(name);
    PENSTOCK_MODEL(path, name);
    const ProfiledModel f(path);
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

/// Whichever search it is in that is stopped: also the one for the plan that lacks least.
TEST(Plan, MayBeStoppedWhereNothingFits) {
  PENSTOCK_MODEL(path, "pippy");
  const ProfiledModel f(path);
  const Planned least =
      f.plan({.ranks = 3, .schedules = named, .objective = PlanObjective::memory});
  const int64_t peak = std::ranges::max(least.plan.prediction->peak_memory_bytes);
  int stopped = 0, refused = 0;
  for (int after = 0; refused == 0 && after < 10000; after += 1 + after / 2) {
    int asked = 0;
    PlanRequest request{.ranks = 3, .schedules = named, .memory_bytes = peak - 1};
    request.stop = [&] { return asked++ >= after; };
    try {
      f.plan(request);
      FAIL() << "it fits into less than the least";
    } catch (const SearchStopped&) {
      ++stopped;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("no plan fits"));
      refused += asked <= after;
    }
  }
  EXPECT_GT(stopped, 2);
  EXPECT_EQ(refused, 1);
}

TEST(Plan, IsTheSameToTheByteInTwoRuns) {
  PENSTOCK_MODEL(path, "transformer-text");
  const ProfiledModel f(path);
  const PlanRequest request{.ranks = 2};
  const std::filesystem::path file = f.folder.path() / "plan.yaml";
  EXPECT_EQ(to_yaml(f.plan(request).plan, file), to_yaml(f.plan(request).plan, file));
}

TEST(Plan, SaysWhatItWasMadeFrom) {
  PENSTOCK_MODEL(path, "pippy");
  const ProfiledModel f(path);
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
      const ProfiledModel f(path, {.link_bytes_per_s = link});
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

TEST(Plan, RanksMayHaveMoreOrFewerCoresThanTheyWereProfiledWith) {
  PENSTOCK_MODEL(path, "pippy");
  ProfiledModel f(path);
  f.profile.device.cores = 4;
  for (const int threads : {1, 4}) {
    f.profile.device.threads = threads;
    for (const char* profiled : {"1", "8"}) {
      f.profile.device.details["ranks"] = profiled;
      for (int ranks = 1; ranks <= 4; ++ranks) {
        const Planned planned = f.plan({.ranks = ranks});
        EXPECT_LE(planned.lower_bound_s, planned.split_bound_s);
        EXPECT_LE(planned.split_bound_s, planned.plan.prediction->step_s);
      }
    }
  }
}

TEST(Plan, TakesManualSplits) {
  PENSTOCK_MODEL(path, "pippy");
  const ProfiledModel f(path);
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
  const ProfiledModel f(path);
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
  const ProfiledModel f(path);
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
  const ProfiledModel f(path);
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

TEST(Plan, CountsTheSnapshotsOfRunsThatSurvive) {
  PENSTOCK_MODEL(path, "transformer-text");
  ProfiledModel f(path);
  const PlanRequest request{
      .ranks = 2, .schedules = {"1f1b"}, .stages_per_rank = 1, .data_parallel = 1};
  const Planned without = f.plan(request);
  f.profile.job.snapshots = 3;
  const Planned with = f.plan(request);
  ASSERT_EQ(with.simulation.peak_memory.size(), 2U);
  int64_t more = 0;
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(without.simulation.peak_memory[rank].snapshot_bytes, 0);
    EXPECT_GT(with.simulation.peak_memory[rank].snapshot_bytes, 0);
    EXPECT_EQ(with.simulation.peak_memory[rank].snapshot_bytes % 3, 0);
    more += with.simulation.peak_memory[rank].snapshot_bytes;
  }
  PlanRequest tight = request;
  tight.memory_bytes = std::ranges::max(with.simulation.peak_memory_bytes) - more / 8;
  EXPECT_LE(std::ranges::max(f.plan(tight).simulation.peak_memory_bytes), *tight.memory_bytes);
}

TEST(Plan, MoreMemoryIsNeverSlower) {
  PENSTOCK_MODEL(path, "transformer-text");
  const ProfiledModel f(path);
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

}  // namespace
}  // namespace penstock::test
