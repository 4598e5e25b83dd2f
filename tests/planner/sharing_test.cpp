// How the planner shares parameters: both ways of every split are compared, within the memory there
// is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "graph/pt2/pt2.hpp"
#include "planner/plan.hpp"
#include "simulator/costs/plan_costs.hpp"
#include "tests/models/models.hpp"
#include "tests/pipeline/support.hpp"
#include "tests/planner/splits/try_all.hpp"
#include "tests/planner/synthetic_profile.hpp"

namespace penstock::test {
namespace {

using ::testing::Each;
using ::testing::Pair;

/// A model whose parameters several stages use, trained with AdamW.
struct Tied {
  TemporaryFolder folder;
  Graph model;
  Profile profile;
  Analysis analysis;
  ModelChain chain;

  explicit Tied(const std::string& path, const SyntheticDevice& device = {})
      : model(read_pt2(path)),
        profile(written(synthetic_profile(model, {1, 2, 4}, 8, device),
                        folder.path() / "profile.json")),
        analysis(analyse(model)),
        chain(model, analysis, unit_begins(model, analysis)) {}

  PlanningInputs inputs() const {
    return {model, analysis, profile, nullptr, plan_network(profile, nullptr), chain.begins()};
  }
  Planned plan(PlanRequest request, PlanSharing sharing) const {
    request.sharing = sharing;
    return make_plan(profile, model, nullptr, request);
  }
  std::string error(PlanRequest request, PlanSharing sharing) const {
    return input_error([&] { plan(request, sharing); });
  }
};

/// Optimizer steps that take longer than what they step takes over this link, and the other way
/// round: one way does not always win.
const SyntheticDevice slow_link{.link_bytes_per_s = 1e8},
    fast_link{.link_bytes_per_s = 1e12, .link_latency_s = 1e-9};

int64_t fullest(const Planned& planned) {
  return *std::ranges::max_element(planned.simulation.peak_memory_bytes);
}

class Sharing : public ::testing::TestWithParam<const char*> {};

TEST_P(Sharing, EverySplitGetsTheBetterOfBothWaysAndTheSearchTheBestOfAll) {
  PENSTOCK_MODEL(path, GetParam());
  std::set<bool> better;
  for (const SyntheticDevice& device : {slow_link, fast_link}) {
    const Tied tied(path, device);
    const PlanningInputs inputs = tied.inputs();
    for (const char* schedule : {"gpipe", "1f1b", "zbv"}) {
      PlanRequest request{.schedules = {schedule}, .effort = INT64_MAX};
      if (tied.chain.units() > 12) request.data_parallel = 1;
      const auto with = [&](PlanSharing sharing) {
        PlanRequest one = request;
        one.sharing = sharing;
        return one;
      };
      const PlanRequest requests[] = {with(PlanSharing::automatic), with(PlanSharing::replicate),
                                      with(PlanSharing::transmit)};
      const int ranks = tied.chain.units() > 12 ? 2 : 3;
      const LayoutSearch both(inputs, tied.chain, requests[0], ranks);
      const LayoutSearch replicated(inputs, tied.chain, requests[1], ranks);
      const LayoutSearch sent(inputs, tied.chain, requests[2], ranks);
      for (size_t i = 0; i < both.layouts().size(); ++i) {
        const PipelineLayout layout = both.layouts()[i];
        const auto space = both.open(layout);
        if (!space || layout.ranks < 2) continue;
        const auto copies = replicated.open(layout), owned = sent.open(layout);
        for (const std::vector<int>& begins : all_begins(space->splits())) {
          const SplitOutcome found = space->simulate(begins);
          const SplitOutcome one = copies->simulate(begins);
          const SplitOutcome other = owned->simulate(begins);
          ASSERT_EQ(key(i, begins, found), std::min(key(i, begins, one), key(i, begins, other)));
          if (one.step_s != other.step_s) better.insert(other.step_s < one.step_s);
        }
      }
      for (const LayoutSearch* search : {&both, &replicated, &sent}) {
        const SearchResult result = search->run();
        const auto expected = test::try_all(*search);  // and bounds never above a simulation
        ASSERT_TRUE(result.best && expected);
        EXPECT_EQ(key(*result.best), *expected) << schedule;
      }
    }
  }
  EXPECT_EQ(better.size(), 2U) << "one way is always the better one";
}

INSTANTIATE_TEST_SUITE_P(Models, Sharing, ::testing::Values("iterative", "gpt2"));

TEST(PlanSharing, WhereReplicatingDoesNotFitThePlanTransmits) {
  PENSTOCK_MODEL(path, "gpt2");
  const Tied tied(path, slow_link);
  // Behind the embedding: the second rank, which has all else, is the fuller one.
  PlanRequest request{.schedules = {"1f1b"},
                      .memory_bytes = INT64_MAX,
                      .split = {"transformer.h.0:beginning"},
                      .objective = PlanObjective::memory};
  const int64_t copies = fullest(tied.plan(request, PlanSharing::replicate));
  const int64_t owned = fullest(tied.plan(request, PlanSharing::transmit));
  ASSERT_LT(owned, copies);
  EXPECT_EQ(fullest(tied.plan(request, PlanSharing::automatic)), owned);
  request.objective = PlanObjective::throughput;
  request.memory_bytes = owned;
  EXPECT_THAT(tied.error(request, PlanSharing::replicate), ::testing::HasSubstr("no plan fits"));
  const Planned planned = tied.plan(request, PlanSharing::automatic);
  ASSERT_FALSE(planned.plan.shared_parameters.empty());
  EXPECT_THAT(planned.plan.shared_parameters, Each(Pair(::testing::_, "transmit")));
  EXPECT_LE(fullest(planned), owned);
  // With memory enough, and a link that is slow, each updates a copy.
  request.memory_bytes.reset();
  EXPECT_THAT(tied.plan(request, PlanSharing::automatic).plan.shared_parameters,
              Each(Pair(::testing::_, "replicate")));
}

TEST(PlanSharing, APlansFileSimulatesAsItWasPlannedInBothWays) {
  PENSTOCK_MODEL(path, "gpt2");
  const Tied tied(path, fast_link);
  for (const PlanSharing sharing : {PlanSharing::replicate, PlanSharing::transmit}) {
    const Planned planned =
        tied.plan({.ranks = 3, .schedules = {"1f1b"}, .data_parallel = 1}, sharing);
    const auto file = tied.folder.path() / "plan.yaml";
    const Plan read = parse_plan(to_yaml(planned.plan, file), file);
    const Slicing slicing = slice(read, tied.model, tied.analysis);
    const Simulation run = simulate(lowered_program(read, slicing),
                                    plan_costs(read, tied.model, slicing, tied.profile),
                                    plan_network(tied.profile, nullptr), {});
    EXPECT_EQ(run.makespan_s, planned.plan.prediction->step_s);
    EXPECT_EQ(run.peak_memory_bytes, planned.plan.prediction->peak_memory_bytes);
  }
}

TEST(PlanSharing, IsTheSameToTheByteForAnyNumberOfThreads) {
  PENSTOCK_MODEL(path, "gpt2");
  for (const SyntheticDevice& device : {slow_link, fast_link}) {
    const Tied tied(path, device);
    PlanRequest request{.ranks = 3, .effort = 300'000};
    const auto file = tied.folder.path() / "plan.yaml";
    const std::string one = to_yaml(tied.plan(request, PlanSharing::automatic).plan, file);
    for (const int threads : {2, 5}) {
      request.threads = threads;
      EXPECT_EQ(to_yaml(tied.plan(request, PlanSharing::automatic).plan, file), one) << threads;
    }
  }
}

}  // namespace
}  // namespace penstock::test
