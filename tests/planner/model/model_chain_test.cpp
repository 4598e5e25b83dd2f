// Every split of real models: bounds and closed-form memory against plan_costs and the simulator.
#include "planner/model/model_chain.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "planner/layouts/layout_search.hpp"
#include "planner/model/stage_tables.hpp"
#include "planner/paths/box_bound.hpp"
#include "simulator/costs/plan_costs.hpp"
#include "tests/pipeline/in_flight.hpp"
#include "tests/planner/bounds/chain_bounds.hpp"
#include "tests/planner/chains.hpp"
#include "tests/planner/model/real_models.hpp"
#include "tests/planner/splits/in_blocks.hpp"

namespace penstock::test {
namespace {

constexpr int64_t max_splits = 300;  // per (schedule, microbatches); more are thinned out evenly

std::vector<std::vector<int>> some_splits(int units, int ranks, int64_t most = max_splits) {
  std::vector<std::vector<int>> all = all_splits(units, ranks), kept;
  const size_t stride = all.size() / static_cast<size_t>(most) + 1;
  for (size_t i = 0; i < all.size(); i += stride) kept.push_back(all[i]);
  return kept;
}

/// For plans with one stage per rank, one replica and whole backwards, on exactly that many ranks.
std::vector<PipelineLayout> simple_layouts(const Model& m, int ranks) {
  const PlanRequest request{
      .schedules = {"gpipe", "1f1b"}, .stages_per_rank = 1, .data_parallel = 1};
  const PlanningInputs inputs = m.inputs();
  const LayoutList layouts(inputs, request, ranks, m.chain.units());
  std::vector<PipelineLayout> all;
  for (const LayoutList::Block& block : layouts.blocks())
    if (block.ranks == ranks) std::ranges::move(layouts.of(block), std::back_inserter(all));
  return all;
}

void expect_bounds_hold(const Model& m) {
  const PlanningInputs inputs = m.inputs();
  for (int ranks = 1; ranks <= std::min(m.chain.units(), 4); ++ranks) {
    for (const PipelineLayout& layout : simple_layouts(m, ranks)) {
      Evaluator evaluator(inputs);
      const Program compute = layout.compute();
      const ChainCosts costs = m.chain.costs(m.profile, *layout.measured, m.link, m.reduce, ranks);
      const int count = static_cast<int>(layout.microbatches);
      const ChainBound bound(costs, ranks, count, in_flight(compute));
      const ChainMemory memory(std::make_shared<StageTable>(
                                   m.chain.bytes(m.profile, *layout.measured, m.chain.slicing())),
                               ranks, in_flight(compute));
      const double any_s = chain_lower_bound_s(costs, ranks, count);
      for (const std::vector<int>& units : some_splits(m.chain.units(), ranks)) {
        Plan plan = evaluator.plan(layout, compute.rank_of_stage, 0);
        Slicing slicing = evaluator.slicing(m.chain.operators(m.chain.stage_of_unit(units)), ranks);
        const Costs stage_costs = evaluator.costs(plan, slicing);
        const Simulation run =
            evaluator.evaluate(plan, slicing, stage_costs, {}, {false, false})->simulation;
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

/// The bound of the box of this split alone, and of all, where the layout has paths.
void expect_bounds_of_boxes(OpenSpace& space, const std::vector<int>& begins, double step_s,
                            int64_t& recompute) {
  const auto paths = space.paths(begins);
  if (!paths) return;
  recompute += paths->memory() != nullptr;
  const BoxBound bounds(paths);
  DivisionChoice choice(paths->ranks(), paths->times().stages());
  constexpr double never_s = std::numeric_limits<double>::infinity();
  SplitBox one = bounds.all();
  one.begins = {begins, begins};
  for (const SplitBox& box : {one, bounds.all()})
    EXPECT_LE(bounds.bound(box, {}, {never_s, never_s}, choice).seconds, step_s);
}

/// Splits that fitted, and those whose paths knew that ranks have to recompute.
struct Fitted {
  int64_t all = 0, recompute = 0;
};

/// Every layout on up to three ranks, `adaptive` and replicas included.
Fitted expect_layout_bounds_hold(const Model& m, const PlanRequest& request) {
  Fitted fit;
  const PlanningInputs inputs = m.inputs();
  const LayoutSearch search(inputs, m.chain, request, 3);
  const std::vector<SearchSpace> spaces = spaces_of(search.blocks({}));
  for (size_t i = 0; i < spaces.size(); ++i) {
    const PipelineLayout layout = search.layouts()[i];
    const auto space = search.open(layout);
    if (!space) continue;
    const SplitSpace& splits = space->splits();
    const bool branches = layout.branches;
    if (branches && splits.splits() > 1000) continue;
    for (const std::vector<int>& units :
         branches ? all_begins(splits) : some_splits(splits.units(), splits.stages(), 12)) {
      const SplitOutcome run = space->simulate(units, {});
      if (run.peak_bytes > search.limit(layout).max_bytes) continue;
      ++fit.all;
      SCOPED_TRACE(::testing::Message() << layout.name() << " on " << layout.data_parallel << " x "
                                        << layout.ranks << " x " << layout.stages_per_rank << ", "
                                        << layout.microbatches << " microbatches");
      const double room = run.step_s * (1 + rounding);
      EXPECT_LE(spaces[i].bound_s, room);
      EXPECT_LE(spaces[i].bytes, run.peak_bytes);
      EXPECT_LE(splits.min_s(), room);
      EXPECT_LE(splits.min_bytes(), run.peak_bytes);
      EXPECT_LE(splits.split_s(units), room);
      expect_bounds_of_boxes(*space, units, room, fit.recompute);
    }
  }
  return fit;
}

class EveryModel : public OfModel {};

TEST_P(EveryModel, BoundsAndClosedFormMemoryAreNeverAboveTheSimulation) {
  PENSTOCK_MODEL(path, GetParam());
  expect_bounds_hold(Model(path, false, {.link_bytes_per_s = 3e7}));
}

TEST_P(EveryModel, BoundsHoldForCutsBetweenAnyOperators) {
  PENSTOCK_MODEL(path, GetParam());
  expect_bounds_hold(Model(path, true, {.link_bytes_per_s = 3e7}));
}

TEST_P(EveryModel, BoundsCountTheSnapshotsOfRunsThatSurvive) {
  PENSTOCK_MODEL(path, GetParam());
  Model m(path);
  m.profile.job.snapshots = 3;
  expect_bounds_hold(m);
  for (const char* schedule : {"1f1b", "zb-h1"})
    expect_layout_bounds_hold(m, {.schedules = {schedule}, .stages_per_rank = 1});
}

void expect_bounds_of_all_layouts_hold(const Model& m) {
  if (m.chain.units() <= 6) {  // with `adaptive`, and any stages per rank
    expect_layout_bounds_hold(m, {});
    return;
  }
  const std::pair<const char*, int> some[] = {
      {"1f1b", 1}, {"zb-h1", 1}, {"interleaved-1f1b", 2}, {"zbv", 2}, {"dualpipev", 2}};
  for (const auto& [schedule, each] : some) {
    expect_layout_bounds_hold(m, {.schedules = {schedule}, .stages_per_rank = each});
  }
}

TEST_P(EveryModel, BoundsOfAllLayoutsAreNeverAboveTheSimulation) {
  PENSTOCK_MODEL(path, GetParam());
  for (const double host_s : hosts_s) {
    expect_bounds_of_all_layouts_hold(
        Model(path, false, {.link_bytes_per_s = 3e7, .host_s = host_s}));
  }
}

TEST_P(EveryModel, TheyHoldWhereReplicasShareOutTheOptimizersState) {
  PENSTOCK_MODEL(path, GetParam());
  const Model m(path, false, {.link_bytes_per_s = 3e7});
  expect_layout_bounds_hold(m, {.schedules = {"1f1b", "zb-h1"},
                                .stages_per_rank = 1,
                                .optimizer_state = OptimizerState::sharded});
  expect_layout_bounds_hold(m, {.schedules = {"interleaved-1f1b"},
                                .stages_per_rank = 2,
                                .optimizer_state = OptimizerState::sharded});
}

TEST_P(EveryModel, TheyHoldWithSoLittleMemoryThatSomeRanksRecompute) {
  PENSTOCK_MODEL(path, GetParam());
  const Model m(path);
  const PlanningInputs inputs = m.inputs();
  int64_t recompute = 0;
  const std::pair<const char*, int> schedules[] = {
      {"gpipe", 1},    {"1f1b", 1},     {"zb-h1", 1},           {"zbv", 2},
      {"adaptive", 1}, {"adaptive", 2}, {"interleaved-1f1b", 2}};
  for (const auto& [schedule, stages_per_rank] : schedules) {
    PlanRequest request{.schedules = {schedule},
                        .stages_per_rank = stages_per_rank,
                        .data_parallel = 1,
                        .memory_bytes = INT64_MAX,
                        .objective = PlanObjective::memory,
                        .effort = 1'000'000};
    const auto found = LayoutSearch(inputs, m.chain, request, 2).run().best;
    if (!found && stages_per_rank > 1) continue;  // too few units
    ASSERT_TRUE(found);
    request.objective = PlanObjective::throughput;
    int64_t fit = 0;
    for (const int percent : {110, 95, 80}) {
      request.memory_bytes = found->outcome.peak_bytes * percent / 100;
      const auto [all, known] = expect_layout_bounds_hold(m, request);
      fit += all;
      recompute += known;
    }
    EXPECT_GT(fit, 0);
  }
  if (std::string_view(GetParam()) == "transformer_text") {
    EXPECT_GT(recompute, 0);
  }
}

TEST(ModelChain, BoundsCountEachReplicasPartOfTheOptimizersState) {
  PENSTOCK_MODEL(path, "vit");
  const Model m(path);
  const MicrobatchCosts& measured = m.profile.microbatches.front();
  const auto always = [&](int64_t parts) {
    return m.chain.bytes(m.profile, measured, m.chain.slicing(), {.state_parts = parts})
        .at(0, 1)
        .always;
  };
  EXPECT_GT(always(1), always(2));
  EXPECT_GT(always(2), always(4));
}

TEST_P(EveryModel, KeepsNoMoreWhereItRecomputes) {
  PENSTOCK_MODEL(path, GetParam());
  const Model m(path, true);
  const StageTable bytes =
      m.chain.bytes(m.profile, m.profile.microbatches.front(), m.chain.slicing());
  for (int begin = 0; begin < bytes.units(); ++begin)
    for (int end = begin + 1; end <= bytes.units(); ++end)
      EXPECT_LE(bytes.at(begin, end).given, bytes.at(begin, end).per_microbatch);
}

TEST_P(EveryModel, IsKnownAsOneStageWithoutATable) {
  PENSTOCK_MODEL(path, GetParam());
  const Model m(path, true);
  StageTables tables(m.chain, m.profile, m.chain.slicing(), {.transmit = true});
  for (const MicrobatchCosts& measured : m.profile.microbatches) {
    const StageBytes kept = tables.kept_by_whole(measured);
    const StageBytes& expected = tables.of(measured, 3)->at(0, m.chain.units());
    EXPECT_EQ(kept.per_microbatch, expected.per_microbatch);
    EXPECT_EQ(kept.given, expected.given);
    EXPECT_EQ(kept.received, expected.received);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, some_models(), name_of_model);

}  // namespace
}  // namespace penstock::test
