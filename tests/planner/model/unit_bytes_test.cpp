// Bounds of ranks that recompute, against plans whose units recompute at random.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/cuts/segments.hpp"
#include "planner/layouts/layout_search.hpp"
#include "planner/paths/box_bound.hpp"
#include "simulator/memory/stage_memory.hpp"
#include "tests/models/models.hpp"
#include "tests/pipeline/in_flight.hpp"
#include "tests/planner/chains.hpp"
#include "tests/planner/model/real_models.hpp"

namespace penstock::test {
namespace {

class RandomRecompute {
 public:
  RandomRecompute(const Model& model, bool whole_units, const char* schedule, int ranks, int each)
      : model_(model), inputs_(model.inputs()), ranks_(ranks), stages_(ranks * each) {
    if (!whole_units)
      inputs_.units = units_at(model.graph, unit_begins(model.graph, model.analysis));
    request_ = {
        .schedules = {schedule}, .microbatches = 8, .stages_per_rank = each, .data_parallel = 1};
  }

  /// Bounds of a random split, with the memory that it then needs.
  void expect_bounds_hold() {
    const LayoutSearch search(inputs_, model_.chain, request_, ranks_);
    const PipelineLayout layout = only(search);
    const Program compute = layout.compute();
    const std::vector<int> begins = random_begins();
    Evaluator evaluator(inputs_);
    Plan plan = evaluator.plan(layout, compute.rank_of_stage, 0);
    Slicing slicing =
        evaluator.slicing(model_.chain.operators(model_.chain.stage_of_unit(begins)), stages_);
    recompute_at_random(slicing, plan);
    const Costs costs = evaluator.costs(plan, slicing);
    const Simulation run =
        evaluator.evaluate(plan, std::move(slicing), costs, {}, {false, false})->simulation;
    if (stages_ == ranks_ && !layout.schedule->split_backward)
      expect_stages_hold(layout, begins, run.peak_memory_bytes);
    const int64_t peak = std::ranges::max(run.peak_memory_bytes);
    const double least_s = expect_bounds_hold(begins, peak, run.makespan_s * (1 + rounding));
    for (const StageCosts& stage : costs.stages) longer += stage.recompute_s > 0;
    known += least_s > search.open(layout)->splits().split_s(begins) * (1 + rounding);
  }

  int longer = 0, known = 0;  // stages that recompute, and splits of which bounds know it

 private:
  PipelineLayout only(const LayoutSearch& search) const {
    for (const LayoutList::Block& block : search.layouts().blocks())
      for (const PipelineLayout& layout : search.layouts().of(block))
        if (layout.ranks == ranks_ && !layout.branches) return layout;
    throw std::logic_error("no such layout");
  }

  void expect_stages_hold(const PipelineLayout& layout, const std::vector<int>& begins,
                          const std::vector<int64_t>& peak_bytes) const {
    const ChainMemory memory(std::make_shared<StageTable>(model_.chain.bytes(
                                 model_.profile, *layout.measured, inputs_.units_as_stages())),
                             ranks_, in_flight(layout.compute()), true);
    for (int rank = 0; rank < ranks_; ++rank) {
      const int end = rank + 1 < ranks_ ? begins[rank + 1] : model_.chain.units();
      EXPECT_LE(memory.stage(begins[rank], end, ranks_ - rank), peak_bytes[rank]);
    }
  }

  /// The split's bound.
  double expect_bounds_hold(const std::vector<int>& begins, int64_t peak, double step_s) const {
    PlanRequest request = request_;
    request.memory_bytes = peak;
    const LayoutSearch search(inputs_, model_.chain, request, ranks_);
    const auto space = search.open(only(search));
    const SplitSpace& splits = space->splits();
    EXPECT_LE(splits.split_s(begins), step_s);
    EXPECT_LE(splits.min_s(), step_s);
    EXPECT_LE(splits.min_bytes(), peak);
    if (const auto paths = space->paths(begins)) {
      const BoxBound bounds(paths);
      DivisionChoice choice(paths->ranks(), paths->times().stages());
      constexpr double never_s = std::numeric_limits<double>::infinity();
      SplitBox alone = bounds.all();
      alone.begins = {begins, begins};
      for (const SplitBox& box : {bounds.all(), alone})
        EXPECT_LE(bounds.bound(box, {}, {never_s, never_s}, choice).seconds, step_s);
    }
    return splits.split_s(begins);
  }

  std::vector<int> random_begins() {
    std::vector<int> units(static_cast<size_t>(model_.chain.units()) - 1), begins{0};
    std::iota(units.begin(), units.end(), 1);
    std::ranges::sample(units, std::back_inserter(begins), stages_ - 1, random_);
    return begins;
  }

  void recompute_at_random(const Slicing& slicing, Plan& plan) {
    enum { nothing, at_once, all, some, kinds };
    const auto of_stages = units_of_stages(slicing, inputs_.units);
    for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
      Recompute& recompute = plan.stages[stage].recompute;
      const auto kind = random_() % kinds;
      recompute.whole = kind == at_once;
      for (const int unit : of_stages[stage])
        if (kind == all || (kind == some && random_() % 2 == 0))
          recompute.units.push_back(inputs_.units[static_cast<size_t>(unit)].label);
    }
  }

  const Model& model_;
  PlanningInputs inputs_;
  const int ranks_, stages_;
  PlanRequest request_;
  std::mt19937 random_{1};
};

class RecomputeOfModel : public OfModel {};

/// Stages of any units, any of which recompute.
TEST_P(RecomputeOfModel, KeepsNoLessForItsWeightsThanItsUnitsDo) {
  PENSTOCK_MODEL(path, GetParam());
  std::mt19937 random(1);
  int kept = 0;
  for (const bool fine : {false, true}) {
    const Model m(path, fine);
    const PlanningInputs inputs = m.inputs();
    const MicrobatchCosts& measured = m.profile.microbatches.back();
    ASSERT_TRUE(measured.knows_split_backward());
    const std::vector<UnitBytes>& units = inputs.unit_bytes_at(measured);
    const int count = m.chain.units();
    for (int i = 0; i < 300; ++i) {
      const int begin = static_cast<int>(random() % static_cast<unsigned>(count));
      const int end = begin + 1 + static_cast<int>(random() % static_cast<unsigned>(count - begin));
      std::vector<int> first{0};
      if (begin > 0) first.push_back(begin);
      const int stage = static_cast<int>(first.size()) - 1;
      if (end < count) first.push_back(end);
      Slicing slicing = slice(m.graph, m.analysis, m.chain.operators(m.chain.stage_of_unit(first)),
                              static_cast<int>(first.size()));
      int64_t least = 0;
      for (int unit = begin; unit < end; ++unit) {
        least += units[static_cast<size_t>(unit)].for_weight;
        if (random() % 2 == 0) continue;
        const OperatorId behind = unit + 1 < count
                                      ? inputs.units[static_cast<size_t>(unit) + 1].begin
                                      : static_cast<OperatorId>(m.graph.operators.size());
        slicing.stages[static_cast<size_t>(stage)].recomputed.push_back(
            {inputs.units[static_cast<size_t>(unit)].begin, behind});
      }
      EXPECT_LE(
          least,
          stage_memory(inputs.lives_at(measured), measured, slicing, stage, 0).saved_weight_bytes);
      kept += least > 0;
    }
  }
  EXPECT_GT(kept, 0);
}

TEST_P(RecomputeOfModel, NeverTakesLessMemoryOrTimeThanBoundsSay) {
  PENSTOCK_MODEL(path, GetParam());
  const std::pair<const char*, int> schedules[] = {{"1f1b", 1},       {"gpipe", 1},
                                                   {"zb-h1", 1},      {"interleaved-1f1b", 2},
                                                   {"zbv", 2},        {"interleaved-1f1b", 3},
                                                   {"looped-bfs", 2}, {"dualpipev", 2}};
  int longer = 0, known = 0;
  for (const bool fine : {false, true}) {
    const Model m(path, fine, {.link_bytes_per_s = 3e7});
    for (const bool whole_units : {true, false}) {
      if (!fine && !whole_units) continue;
      for (const auto& [schedule, each] : schedules) {
        for (const int ranks : {1, 2, 3}) {
          if (ranks * each > m.chain.units() || ranks < each) continue;
          SCOPED_TRACE(::testing::Message() << schedule << " on " << ranks << ", fine " << fine
                                            << ", whole units " << whole_units);
          RandomRecompute plans(m, whole_units, schedule, ranks, each);
          for (int i = 0; i < 4; ++i) plans.expect_bounds_hold();
          longer += plans.longer;
          known += plans.known;
        }
      }
    }
  }
  EXPECT_GT(longer, 0);
  if (std::string_view(GetParam()).starts_with("transformer")) {
    EXPECT_GT(known, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RecomputeOfModel, some_models(), name_of_model);

}  // namespace
}  // namespace penstock::test
