// The contiguous max-load optimum against trying every placement.
#include "bench/planner/max_load/max_load.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "bench/planner/max_load/placement_units.hpp"
#include "tests/bench/planner/instances.hpp"

namespace penstock::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

/// Forward nodes, some with a backward mate behind mirrored edges, some backward nodes alone; equal
/// colours; nodes that take no time; tight memory in every other instance.
PlacementGraph random_placements(uint64_t seed) {
  test::Dice dice(seed);
  const int forward = dice.number(1, 4);
  const Dag dag = test::random_dag(dice, forward, 45);
  PlacementGraph graph{.accelerators = dice.number(0, 2), .cpus = dice.number(0, 1)};
  if (graph.accelerators + graph.cpus == 0) graph.accelerators = 2;
  graph.accelerator_bytes = seed % 2 == 0 ? 1e9 : dice.number(2, 12);
  const auto node = [&](bool backward, int colour) {
    const bool free = dice.percent(35);
    graph.nodes.push_back({.cpu_s = free ? 0.0 : dice.number(1, 30),
                           .accelerator_s = free ? 0.0 : dice.number(1, 9),
                           .output_s = 0.25 * dice.number(0, 8),
                           .bytes = static_cast<double>(dice.number(0, 3)),
                           .supported = !dice.percent(8),
                           .backward = backward,
                           .colour = colour});
  };
  for (int i = 0; i < forward; ++i) node(false, dice.percent(15) ? 0 : i);
  graph.dag.edges = dag.edges;
  std::vector<int> mate(forward, -1);
  for (int i = 0; i < forward && seed % 3 != 0; ++i) {
    if (!dice.percent(70)) continue;
    mate[i] = static_cast<int>(graph.nodes.size());
    node(true, dice.percent(20) ? 100 + i : graph.nodes[i].colour);  // else an orphan
    if (dice.percent(30)) graph.dag.edges.emplace_back(i, mate[i]);
  }
  for (const auto& [from, to] : dag.edges)
    if (mate[from] >= 0 && mate[to] >= 0) graph.dag.edges.emplace_back(mate[to], mate[from]);
  graph.dag.nodes = static_cast<int>(graph.nodes.size());
  return graph;
}

/// Devices can be ordered: no circle among them along forward edges, nor along backward ones of a
/// colour without a forward node, turned around.
bool contiguous(const PlacementGraph& graph, const std::vector<int>& device, int devices) {
  std::set<int> forward_colours;
  for (const PlacementNode& node : graph.nodes)
    if (!node.backward) forward_colours.insert(node.colour);
  Dag between{devices, {}};
  for (const auto& [from, to] : graph.dag.edges) {
    const PlacementNode &a = graph.nodes[from], &b = graph.nodes[to];
    const bool orphan = !forward_colours.contains(a.colour) || !forward_colours.contains(b.colour);
    if (device[from] == device[to]) continue;
    if (!b.backward) between.edges.emplace_back(device[from], device[to]);
    if (a.backward && b.backward && orphan) between.edges.emplace_back(device[to], device[from]);
  }
  return nodes_in_cycle(between).empty();
}

/// Loads straight from the definition; infinite where an accelerator cannot hold its nodes.
double load_s(const PlacementGraph& graph, const std::vector<int>& device, int which) {
  const bool cpu = which >= graph.accelerators;
  double load_s = 0, bytes = 0;
  for (int i = 0; i < graph.dag.nodes; ++i) {
    const PlacementNode& node = graph.nodes[i];
    bool reads = false, is_read = false;
    for (const auto& [from, to] : graph.dag.edges) {
      if (from != i || device[to] == device[i]) continue;
      is_read = true;
      reads = reads || device[to] == which;
    }
    if (device[i] == which) {
      load_s += cpu ? node.cpu_s : node.accelerator_s;
      bytes += node.bytes;
      if (!cpu && !node.supported) return std::numeric_limits<double>::infinity();
    }
    const bool moves = device[i] == which ? is_read : reads;
    if (!cpu && moves) load_s += node.output_s;
  }
  return !cpu && bytes > graph.accelerator_bytes ? std::numeric_limits<double>::infinity() : load_s;
}

double min_load_s(const PlacementGraph& graph) {
  double best_s = std::numeric_limits<double>::infinity();
  const int devices = graph.accelerators + graph.cpus;
  test::for_all(graph.dag.nodes, devices, [&](const std::vector<int>& device) {
    for (int i = 0; i < graph.dag.nodes; ++i)
      for (int j = 0; j < i; ++j)
        if (graph.nodes[i].colour == graph.nodes[j].colour && device[i] != device[j]) return;
    if (!contiguous(graph, device, devices)) return;
    double max_s = 0;
    for (int which = 0; which < devices; ++which)
      max_s = std::max(max_s, load_s(graph, device, which));
    best_s = std::min(best_s, max_s);
  });
  return best_s;
}

TEST(MaxLoad, IsTheLeastOfAllPlacements) {
  int fits = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementGraph graph = random_placements(seed);
    ASSERT_TRUE(nodes_in_cycle(graph.dag).empty());
    const double expected_s = min_load_s(graph);
    const MaxLoadPlan plan = solve_max_load(graph);
    EXPECT_TRUE(plan.exact);
    if (expected_s > 1e300) {
      EXPECT_EQ(plan.load_s, expected_s);
      continue;
    }
    ++fits;
    ASSERT_NEAR(plan.load_s, expected_s, test::rounding * expected_s);
  }
  EXPECT_GT(fits, 1000);
}

TEST(MaxLoad, ThePlanHoldsEveryNodeOnceOnDevicesThatThereAre) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementGraph graph = random_placements(seed);
    const MaxLoadPlan plan = solve_max_load(graph);
    if (plan.load_s > 1e300) continue;
    std::vector<int> device(graph.nodes.size(), -1);
    int accelerators = 0, cpus = 0;
    for (const MaxLoadStage& stage : plan.stages) {
      const int which = stage.cpu ? graph.accelerators + cpus++ : accelerators++;
      for (const int node : stage.nodes) {
        EXPECT_EQ(device[node], -1);
        device[node] = which;
      }
    }
    EXPECT_LE(accelerators, graph.accelerators);
    EXPECT_LE(cpus, graph.cpus);
    EXPECT_EQ(std::ranges::count(device, -1), 0);
    EXPECT_TRUE(contiguous(graph, device, graph.accelerators + graph.cpus));
    for (int which = 0; which < graph.accelerators + graph.cpus; ++which)
      EXPECT_LE(load_s(graph, device, which), plan.load_s * (1 + test::rounding));
  }
}

/// Ten nodes without edges have 2^10 downsets.
TEST(MaxLoad, SaysWhereItOnlySplitAChain) {
  PlacementGraph graph{.accelerators = 2, .accelerator_bytes = 1};
  graph.dag.nodes = 10;
  for (int i = 0; i < 10; ++i)
    graph.nodes.push_back({.cpu_s = 1, .accelerator_s = 1.0 + i, .colour = i});
  const MaxLoadPlan limited = solve_max_load(graph, 100), all = solve_max_load(graph);
  EXPECT_FALSE(limited.exact);
  EXPECT_TRUE(all.exact);
  EXPECT_EQ(all.downsets, 1024);
  EXPECT_EQ(all.load_s, 28);  // 55 in all
  EXPECT_GE(limited.load_s, all.load_s);
}

TEST(PlacementUnits, JoinColoursCirclesAndNodesThatTakeNoTime) {
  // 0 -> 1 -> 2 -> 3, 0 and 2 of one colour, so 1 lies between; 3 takes no time.
  PlacementGraph graph{.accelerators = 1, .accelerator_bytes = 100};
  graph.nodes.resize(5);
  for (int i = 0; i < 5; ++i)
    graph.nodes[i] = {.cpu_s = 1, .accelerator_s = 1, .output_s = 1, .colour = i};
  graph.nodes[2].colour = 0;
  graph.nodes[3].cpu_s = graph.nodes[3].accelerator_s = 0;
  graph.dag = {5, {{0, 1}, {1, 2}, {2, 3}, {0, 4}}};
  const PlacementUnits units = placement_units(graph);
  EXPECT_THAT(units.unit_of, ElementsAre(0, 0, 0, 0, 1));
  ASSERT_THAT(units.outputs, SizeIs(1));
  EXPECT_THAT(units.outputs[0].readers, ElementsAre(1));
  graph.nodes[3].bytes = 101;  // its place may matter now
  EXPECT_THAT(placement_units(graph).unit_of, ElementsAre(0, 0, 0, 1, 2));
}

}  // namespace
}  // namespace penstock::bench
