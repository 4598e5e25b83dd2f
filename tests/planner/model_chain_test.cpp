// Every split of real models: bounds and closed-form memory against plan_costs and the simulator,
// and the search against trying all.
#include "planner/model_chain.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "chains.hpp"
#include "graph/pt2.hpp"
#include "planner/candidates.hpp"
#include "planner/evaluate.hpp"
#include "planner/search.hpp"
#include "simulator/plan_costs.hpp"
#include "synthetic_profile.hpp"
#include "tests/models/models.hpp"

namespace penstock::test {
namespace {

constexpr int64_t most_splits = 300;  // per (schedule, microbatches); more are thinned out evenly

/// Every operator a unit of its own, but for those that must stay together: most cuts then are
/// crossed by several values, or by none that is sure to.
std::vector<OperatorId> fine_begins(const Graph& graph) {
  std::vector<OperatorId> begins;
  begins.reserve(graph.operators.size());
  for (OperatorId id = 0; id < static_cast<OperatorId>(graph.operators.size()); ++id)
    begins.push_back(id);
  return allowed_begins(graph, std::move(begins));
}

struct Model {
  explicit Model(const std::string& path, bool fine = false, const SyntheticDevice& device = {})
      : graph(read_pt2(path)),
        analysis(analyse(graph)),
        profile(synthetic_profile(graph, {1, 2, 4}, 8, device)),
        link(plan_network(profile, nullptr).link()),
        reduce(reduce_link(profile, nullptr)),
        chain(graph, analysis, fine ? fine_begins(graph) : unit_begins(graph, analysis)) {}

  Graph graph;
  Analysis analysis;
  Profile profile;
  Link link, reduce;
  ModelChain chain;
};

std::vector<std::vector<int>> some_splits(int units, int ranks) {
  std::vector<std::vector<int>> all = all_splits(units, ranks), kept;
  const size_t stride = all.size() / most_splits + 1;
  for (size_t i = 0; i < all.size(); i += stride) kept.push_back(all[i]);
  return kept;
}

void expect_bounds_hold(const Model& m) {
  Evaluator evaluator(m.graph, m.analysis, m.profile, nullptr);
  for (int ranks = 1; ranks <= std::min(m.chain.units(), 4); ++ranks) {
    for (const Candidate& candidate : candidates(m.profile, {}, ranks)) {
      const ChainCosts costs =
          m.chain.costs(m.profile, *candidate.measured, m.link, m.reduce, ranks);
      const int count = static_cast<int>(candidate.microbatches);
      const ChainBound bound(costs, ranks, count, candidate.in_flight);
      const ChainMemory memory(m.chain.bytes(m.profile, *candidate.measured), ranks,
                               candidate.in_flight);
      const double any_s = chain_lower_bound_s(costs, ranks, count);
      for (const std::vector<int>& units : some_splits(m.chain.units(), ranks)) {
        const std::vector<OperatorId> begins = m.chain.operators(units);
        const Simulation run =
            evaluator.evaluate(evaluator.plan(candidate, begins), begins, {false, false})
                .simulation;
        const double room = run.makespan_s * (1 + rounding);
        ASSERT_LE(bound.split(units), room);
        ASSERT_LE(bound.chain(), room);
        ASSERT_LE(any_s, room);
        for (int rank = 0; rank < ranks; ++rank) {
          const int end = rank + 1 < ranks ? units[rank + 1] : m.chain.units();
          ASSERT_LE(memory.stage(units[rank], end, ranks - rank), run.peak_memory_bytes[rank]);
        }
        ASSERT_LE(memory.chain(), *std::ranges::max_element(run.peak_memory_bytes));
      }
    }
  }
}

class EveryModel : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryModel, BoundsAndClosedFormMemoryAreNeverAboveTheSimulation) {
  PENSTOCK_MODEL(path, GetParam());
  expect_bounds_hold(Model(path, false, {.link_bytes_per_s = 3e7}));
}

TEST_P(EveryModel, BoundsHoldForCutsBetweenAnyOperators) {
  PENSTOCK_MODEL(path, GetParam());
  expect_bounds_hold(Model(path, true, {.link_bytes_per_s = 3e7}));
}

TEST_P(EveryModel, SearchFindsWhatTryingAllFinds) {
  PENSTOCK_MODEL(path, GetParam());
  const Model m(path);
  const int ranks = std::min(m.chain.units(), 3);
  const std::vector<Candidate> all = candidates(m.profile, {}, ranks);
  Evaluator evaluator(m.graph, m.analysis, m.profile, nullptr);
  const auto outcome = [&](size_t space, const std::vector<int>& units) {
    const std::vector<OperatorId> begins = m.chain.operators(units);
    const Simulation run =
        evaluator.evaluate(evaluator.plan(all[space], begins), begins, {false, false}).simulation;
    return SplitOutcome{run.makespan_s, *std::ranges::max_element(run.peak_memory_bytes)};
  };
  std::vector<SplitSpace> spaces;
  std::tuple<int64_t, int64_t, size_t, std::vector<int>> best{INT64_MAX, 0, 0, {}};
  for (size_t space = 0; space < all.size(); ++space) {
    const Candidate& one = all[space];
    spaces.push_back({ChainBound(m.chain.costs(m.profile, *one.measured, m.link, m.reduce, ranks),
                                 ranks, static_cast<int>(one.microbatches), one.in_flight),
                      ChainMemory(m.chain.bytes(m.profile, *one.measured), ranks, one.in_flight)});
    for (const std::vector<int>& units : all_splits(m.chain.units(), ranks)) {
      const SplitOutcome result = outcome(space, units);
      best = std::min(best, {std::llround(result.step_s * 1e9), result.peak_bytes, space, units});
    }
  }
  SplitSearch how;
  how.simulate = outcome;
  const std::optional<FoundSplit> found = search_splits(spaces, how).best;
  ASSERT_TRUE(found);
  EXPECT_EQ(std::tuple(std::llround(found->outcome.step_s * 1e9), found->outcome.peak_bytes,
                       found->space, found->begins),
            best);
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel,
                         ::testing::Values("pippy", "iterative", "image_classifier", "everything",
                                           "unet", "lstm", "parameters", "outputs",
                                           "transformer-text", "transformer-f32"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace penstock::test
