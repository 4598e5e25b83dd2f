// Plans for inference, on real exported models with made-up costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.hpp"
#include "graph/cuts/cuts.hpp"
#include "pipeline/job/parameters.hpp"
#include "simulator/costs/forward_costs.hpp"
#include "tests/models/models.hpp"
#include "tests/planner/profiled_model.hpp"
#include "tests/planner/splits/try_all.hpp"

namespace penstock::test {
namespace {

/// A model that runs forwards alone, and its profile.
struct UsedModel {
  explicit UsedModel(const std::string& path, const SyntheticDevice& device = {})
      : trained(path, device),
        model(for_inference(trained.model)),
        profile(forward_costs(trained.profile, model)) {
    profile.job.forward_only = true;
  }
  Planned plan(const PlanRequest& request) const {
    return make_plan(profile, model, nullptr, request);
  }

  ProfiledModel trained;
  Graph model;
  Profile profile;
};

TEST(ForwardOnlyPlan, IsWhatTryingAllFinds) {
  int layouts = 0;
  for (const char* name : {"pippy", "iterative", "everything", "unet"}) {
    SCOPED_TRACE(name);
    PENSTOCK_MODEL(path, name);
    for (const double link : {1e7, 1e9}) {
      const UsedModel used(path, {.link_bytes_per_s = link});
      const Analysis analysis = analyse(used.model);
      const PlanningInputs inputs{used.model,
                                  analysis,
                                  used.profile,
                                  nullptr,
                                  plan_network(used.profile, nullptr),
                                  units(used.model, analysis)};
      const ModelChain chain(used.model, analysis, begins_of(inputs.units));
      PlanRequest request{.allow_batch_coupling = true, .effort = INT64_MAX};
      if (chain.units() > 12) request.stages_per_rank = 1;
      const LayoutSearch search(inputs, chain, request, chain.units() > 12 ? 2 : 3);
      layouts += static_cast<int>(search.layouts().size());
      const SearchResult found = search.run();
      ASSERT_TRUE(found.best);
      const auto expected = try_all(search);  // and bounds never above a simulation
      ASSERT_TRUE(expected);
      EXPECT_EQ(key(*found.best), *expected);
    }
  }
  EXPECT_GT(layouts, 100);
}

TEST(ForwardOnlyPlan, ReadsAsItWasWritten) {
  PENSTOCK_MODEL(path, "pippy");
  const UsedModel used(path);
  const Planned planned = used.plan({.ranks = 2, .data_parallel = 1});
  const std::filesystem::path file = used.trained.folder.path() / "plan.yaml";
  write_file(file, to_yaml(planned.plan, file));
  const Plan plan = read_plan(file);
  EXPECT_TRUE(plan.job.forward_only);
  EXPECT_EQ(plan.job.optimizer, used.trained.profile.job.optimizer);
  const Slicing slicing = slice(plan, used.model, analyse(used.model));
  const Program program = lowered_program(plan, slicing);
  for (const auto& rank : program.ranks) {
    for (const Action& action : rank) {
      EXPECT_TRUE(action.kind == Kind::forward || action.kind == Kind::send_forward ||
                  action.kind == Kind::recv_forward)
          << to_string(action);
    }
  }
  const Simulation run = simulate(program, plan_costs(plan, used.model, slicing, used.profile),
                                  plan_network(used.profile, nullptr), {});
  EXPECT_EQ(run.makespan_s, planned.plan.prediction->step_s);
  EXPECT_EQ(run.peak_memory_bytes, planned.plan.prediction->peak_memory_bytes);
}

TEST(ForwardOnlyPlan, TakesLessTimeAndMemoryThanTraining) {
  PENSTOCK_MODEL(path, "transformer-text");
  const UsedModel used(path);
  const PlanRequest request{
      .ranks = 2, .schedules = {"gpipe"}, .microbatches = 4, .data_parallel = 1};
  const Planned inference = used.plan(request), training = used.trained.plan(request);
  EXPECT_LT(inference.plan.prediction->step_s, training.plan.prediction->step_s / 2);
  for (size_t rank = 0; rank < 2; ++rank)
    EXPECT_LT(inference.plan.prediction->peak_memory_bytes[rank],
              training.plan.prediction->peak_memory_bytes[rank] / 2);
}

TEST(ForwardOnlyPlan, HasNoScheduleThatIsMadeOfBackwards) {
  PENSTOCK_MODEL(path, "pippy");
  const UsedModel used(path);
  EXPECT_THAT(
      input_error([&] { used.plan({.ranks = 2, .schedules = {std::string(adaptive_schedule)}}); }),
      ::testing::HasSubstr("--schedule: adaptive finds places for backwards"));
  for (const Searched& one : used.plan({.ranks = 3}).searched)
    EXPECT_THAT((std::vector<std::string>{"gpipe", "looped-bfs", "interleaved-1f1b"}),
                ::testing::Contains(one.schedule));
}

}  // namespace
}  // namespace penstock::test
