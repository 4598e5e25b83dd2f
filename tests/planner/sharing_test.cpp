// How the planner shares parameters: both ways of every split are compared, within the memory there
// is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "graph/pt2/pt2.hpp"
#include "planner/plan.hpp"
#include "planner/rank_model.hpp"
#include "simulator/costs/plan_costs.hpp"
#include "tests/models/models.hpp"
#include "tests/pipeline/support.hpp"
#include "tests/planner/grouped_model.hpp"
#include "tests/planner/splits/try_all.hpp"

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
    return {
        model, analysis, profile, nullptr, plan_network(profile, nullptr), units(model, analysis)};
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

/// Each split of each layout gets the better of both ways, and a search finds the best of all.
/// Notes in `transmits` which way is the better one.
void expect_the_better_way(const PlanningInputs& inputs, const ModelChain& chain,
                           PlanRequest request, std::set<bool>& transmits) {
  if (chain.units() > 12) request.data_parallel = 1;
  const int ranks = chain.units() > 12 ? 2 : 3;
  PlanRequest requests[] = {request, request, request};
  requests[1].sharing = PlanSharing::replicate;
  requests[2].sharing = PlanSharing::transmit;
  const LayoutSearch both(inputs, chain, requests[0], ranks);
  const LayoutSearch replicated(inputs, chain, requests[1], ranks);
  const LayoutSearch sent(inputs, chain, requests[2], ranks);
  for (size_t i = 0; i < both.layouts().size(); ++i) {
    const PipelineLayout layout = both.layouts()[i];
    const auto space = both.open(layout);
    if (!space || layout.ranks < 2) continue;
    const auto copies = replicated.open(layout), owned = sent.open(layout);
    for (const std::vector<int>& begins : all_begins(space->splits())) {
      const SplitOutcome found = space->simulate(begins, {});
      const SplitOutcome one = copies->simulate(begins, {});
      const SplitOutcome other = owned->simulate(begins, {});
      ASSERT_EQ(key(i, begins, found), std::min(key(i, begins, one), key(i, begins, other)));
      if (one.step_s != other.step_s) transmits.insert(other.step_s < one.step_s);
    }
  }
  for (const LayoutSearch* search : {&both, &replicated, &sent}) {
    const SearchResult result = search->run();
    const auto expected = test::try_all(*search);  // and bounds never above a simulation
    ASSERT_TRUE(result.best && expected);
    EXPECT_EQ(key(*result.best), *expected) << request.schedules.front();
  }
}

class Sharing : public ::testing::TestWithParam<const char*> {};

TEST_P(Sharing, EverySplitGetsTheBetterOfBothWaysAndTheSearchTheBestOfAll) {
  PENSTOCK_MODEL(path, GetParam());
  std::set<bool> transmits;
  for (const SyntheticDevice& device : {slow_link, fast_link}) {
    const Tied tied(path, device);
    for (const char* schedule : {"gpipe", "1f1b", "zbv"})
      expect_the_better_way(tied.inputs(), tied.chain,
                            {.schedules = {schedule}, .effort = INT64_MAX}, transmits);
  }
  EXPECT_EQ(transmits.size(), 2U) << "one way is always the better one";
}

INSTANTIATE_TEST_SUITE_P(Models, Sharing, ::testing::Values("iterative", "gpt2"));

/// The tied embedding of GPT-2 in parts; the block of the loop whole, with a term of the gradient
/// on each part.
TEST(PlanSharing, TensorGroupsGetTheBetterOfBothWaysToo) {
  const std::pair<const char*, sharding::Pin> cases[] = {
      {"gpt2", {"transformer.wte.weight", sharding::Layout::split(0)}},
      {"iterative", {"iter_block.0.weight", sharding::Layout::replicated()}}};
  std::set<bool> transmits;
  for (const auto& [name, pin] : cases) {
    PENSTOCK_MODEL(path, name);
    for (const SyntheticDevice& device : {slow_link, fast_link}) {
      const ProfiledModel of(path, device);
      const GroupCosts pairs =
          made_up(of.model, of.profile.job.loss, {.parameters = {pin}}, 2, device);
      for (const bool sharded : {false, true}) {
        PlanRequest request{.schedules = {"1f1b"}, .effort = INT64_MAX};
        if (sharded) request.optimizer_state = OptimizerState::sharded;
        const RankModel model(of.profile, of.model, nullptr, request, &pairs);
        const auto tensor = of.model.tensor_by_name().at(pin.pattern);
        ASSERT_EQ(model.inputs().model.tensors[tensor].sums_over_parts, !pin.layout.is_split());
        if (sharded && model.chain().units() > 12) continue;  // one replica has nothing to share
        expect_the_better_way(model.inputs(), model.chain(), request, transmits);
      }
    }
  }
  EXPECT_EQ(transmits.size(), 2U) << "one way is always the better one";
}

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
