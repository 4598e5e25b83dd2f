// Splits along the branches of models: against trying every way to give units to stages.
#include "planner/model/branches.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>

#include "base/file.hpp"
#include "planner/layouts/layout_search.hpp"
#include "planner/plan.hpp"
#include "simulator/costs/plan_costs.hpp"
#include "tests/graph/build_graph.hpp"
#include "tests/pipeline/support.hpp"
#include "tests/planner/splits/try_all.hpp"
#include "tests/planner/synthetic_profile.hpp"

namespace penstock::test {
namespace {

using testing::batch;
using testing::GraphBuilder;
using ::testing::HasSubstr;

constexpr int64_t width = 256;

/// A module `name` that adds up what it reads and multiplies by a weight of its own.
ValueId layer(GraphBuilder& graph, const std::string& name, const std::vector<ValueId>& reads) {
  ValueId sum = reads.front();
  for (size_t i = 1; i < reads.size(); ++i)
    sum = graph.op("aten::add.Tensor", {sum, reads[i]}, {batch, width}, {name});
  const ValueId weight = graph.parameter(name + ".weight", {width, width});
  const ValueId product = graph.op("aten::linear", {sum, weight}, {batch, width}, {name});
  graph.named({"input", "weight"});
  return product;
}

/// Two towers of three layers each that a head joins, written layer by layer: a0 b0 a1 b1 a2 b2
/// head.
Graph towers() {
  GraphBuilder graph;
  const ValueId x = graph.input("x", {batch, width});
  ValueId a = x, b = x;
  for (int i = 0; i < 3; ++i) {
    a = layer(graph, fmt::format("a{}", i), {a});
    b = layer(graph, fmt::format("b{}", i), {b});
  }
  graph.output(layer(graph, "head", {a, b}));
  return graph.graph;
}

/// Five to seven layers, each after one or two random ones before it.
Graph random_model(uint64_t seed) {
  std::mt19937_64 random(seed);
  GraphBuilder graph;
  std::vector<ValueId> made{graph.input("x", {batch, width})};
  std::vector<char> used{1};
  const int layers = 5 + static_cast<int>(random() % 3);
  for (int i = 0; i < layers; ++i) {
    std::set<size_t> reads{random() % made.size(), random() % made.size()};
    if (i + 1 == layers) {
      for (size_t value = 0; value < made.size(); ++value) {
        if (!used[value]) reads.insert(value);
      }
    }
    std::vector<ValueId> values;
    for (const size_t value : reads) {
      used[value] = 1;
      values.push_back(made[value]);
    }
    made.push_back(layer(graph, fmt::format("m{}", i), values));
    used.push_back(0);
  }
  graph.output(made.back());
  return graph.graph;
}

/// Every module a unit.
std::vector<OperatorId> module_begins(const Graph& model) {
  std::vector<OperatorId> begins;
  for (OperatorId op = 0; op < static_cast<OperatorId>(model.operators.size()); ++op) {
    const auto at = static_cast<size_t>(op);
    if (op == 0 || model.operators[at].modules != model.operators[at - 1].modules)
      begins.push_back(op);
  }
  return begins;
}

/// As if read from a file.
Graph as_read(Graph graph) {
  graph.path = "/models/made.pt2";
  graph.sha256 = std::string(64, '0');
  graph.batch_coupled = false;
  return graph;
}

struct Branched {
  explicit Branched(Graph graph)
      : model(as_read(std::move(graph))),
        analysis(analyse(model)),
        profile(written(synthetic_profile(model, {1, 2}, 4, {.link_bytes_per_s = 1e8}),
                        folder.path() / "profile.json")),
        chain(model, analysis, module_begins(model)),
        branches(model, analysis, profile) {}

  PlanningInputs inputs() const {
    return {model,
            analysis,
            profile,
            nullptr,
            plan_network(profile, nullptr),
            units_at(model, chain.begins())};
  }

  TemporaryFolder folder;
  Graph model;
  Analysis analysis;
  Profile profile;
  ModelChain chain;
  Branches branches;
};

/// Splits of which every unit has the stage of no unit behind it, and every stage a unit.
int64_t count_splits(const Branched& m, int stages) {
  std::vector<int> stage_of(static_cast<size_t>(m.branches.units().units()), 0);
  const std::function<int64_t(size_t)> from = [&](size_t unit) -> int64_t {
    if (unit == stage_of.size())
      return std::set<int>(stage_of.begin(), stage_of.end()).size() == static_cast<size_t>(stages);
    int first = 0;
    for (const Branches::Edge& edge : m.branches.edges()) {
      if (edge.to == static_cast<int>(unit))
        first = std::max(first, stage_of[static_cast<size_t>(edge.from)]);
    }
    int64_t count = 0;
    for (int stage = first; stage < stages; ++stage) {
      stage_of[unit] = stage;
      count += from(unit + 1);
    }
    return count;
  };
  return from(0);
}

TEST(Branches, AreThoseWhereUnitsDoNotDependOnOneAnother) {
  const Branched m(towers());
  ASSERT_EQ(m.branches.units().units(), 7);
  ASSERT_TRUE(m.branches.any());
  EXPECT_EQ(m.branches.downsets().count(), 4 * 4 + 1);  // so much of either tower, and all
  GraphBuilder line;
  ValueId x = line.input("x", {batch, width});
  for (int i = 0; i < 4; ++i) x = layer(line, fmt::format("m{}", i), {x});
  line.output(x);
  EXPECT_FALSE(Branched(line.graph).branches.any());
}

TEST(Branches, AreLeftAloneWhereTheyAreSmallOrTooMany) {
  const Branched m(towers());
  EXPECT_FALSE(Branches(m.model, m.analysis, m.profile, 16).any());
  Profile small = m.profile;
  for (OperatorCost& cost : small.microbatches.back().operators) {
    if (cost.module.starts_with("b")) cost.times = {};
  }
  EXPECT_FALSE(Branches(m.model, m.analysis, small).any());
}

TEST(Branches, SplitsAreAllWaysToGiveUnitsToStages) {
  int branched = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Branched m(random_model(seed));
    if (!m.branches.any()) continue;
    ++branched;
    for (int stages = 1; stages <= 4; ++stages) {
      EXPECT_EQ(m.branches.splits(stages), count_splits(m, stages)) << seed << ", " << stages;
    }
  }
  EXPECT_GT(branched, 100);
}

TEST(Branches, SearchFindsWhatTryingAllFinds) {
  int along_branches = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Branched m(random_model(seed));
    const PlanningInputs inputs = m.inputs();
    const std::vector<Schedule> all(schedules().begin(), schedules().end());
    const Schedule& schedule = all[seed % all.size()];
    const int each = schedule.stages_per_rank == 0 ? 2 : schedule.stages_per_rank;
    PlanRequest request{
        .schedules = {std::string(schedule.name)}, .stages_per_rank = each, .effort = INT64_MAX};
    const int ranks = each == 1 ? 3 : 2;
    const auto free = LayoutSearch(inputs, m.chain, request, ranks).run().best;
    if (!free) continue;
    for (const int percent : {1000, 90}) {
      request.memory_bytes = free->outcome.peak_bytes / 100 * percent;
      const LayoutSearch search(inputs, m.chain, request, ranks);
      const SearchResult result = search.run();
      EXPECT_TRUE(percent > 100 ? result.complete : result.all_seen);  // ranks may recompute
      const auto expected = try_all(search);
      ASSERT_EQ(result.best.has_value(), expected.has_value());
      if (!expected) continue;
      EXPECT_EQ(key(*result.best), *expected);
      along_branches += search.layouts()[result.best->space].branches;
    }
  }
  EXPECT_GT(along_branches, 5);
}

TEST(Branches, TowersThatRunAtTheSameTimeAreFasterThanTheChain) {
  const Branched m(towers());
  const PlanRequest request{.ranks = 3, .schedules = {"1f1b"}, .data_parallel = 1};
  const Planned planned = make_plan(m.profile, m.model, nullptr, request);
  ASSERT_TRUE(planned.branches);
  double chain_s = INFINITY;
  for (const Searched& one : planned.searched) {
    if (!one.branches && one.best_s > 0) chain_s = std::min(chain_s, one.best_s);
  }
  EXPECT_LT(planned.plan.prediction->step_s, chain_s);
}

TEST(Branches, APlanAlongThemIsWrittenWithModulesAndReadBackTheSame) {
  const Branched m(towers());
  const PlanRequest request{.ranks = 3, .schedules = {"1f1b"}, .data_parallel = 1};
  const Planned planned = make_plan(m.profile, m.model, nullptr, request);
  ASSERT_TRUE(planned.branches);
  const std::filesystem::path path = m.folder.path() / "plan.yaml";
  write_file(path, to_yaml(planned.plan, path));
  EXPECT_THAT(read_file(path), HasSubstr("modules: ["));
  const Plan plan = read_plan(path);
  const Slicing slicing = slice(plan, m.model, m.analysis);
  EXPECT_EQ(slicing.stage_of_operator, planned.slicing.stage_of_operator);
  const Simulation run =
      simulate(lowered_program(plan, slicing), plan_costs(plan, m.model, slicing, m.profile),
               plan_network(m.profile, nullptr), {});
  EXPECT_EQ(run.makespan_s, planned.plan.prediction->step_s);
}

}  // namespace
}  // namespace penstock::test
