// PipeDream's objective against trying every split and replication.
#include "bench/planner/pipedream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "bench/planner/layers.hpp"
#include "tests/bench/planner/instances.hpp"

namespace penstock::bench {
namespace {

using ::testing::ElementsAre;

LayerGraph random_layers(uint64_t seed) {
  test::Dice dice(seed);
  LayerGraph graph;
  graph.dag = test::random_dag(dice, dice.number(1, 5), 45);
  for (int i = 0; i < graph.dag.nodes; ++i)
    graph.layers.push_back({.name = std::to_string(i),
                            .forward_s = 0.5 * dice.number(0, 6),
                            .backward_s = 0.5 * dice.number(0, 6),
                            .activation_bytes = static_cast<double>(dice.number(0, 12)),
                            .parameter_bytes = static_cast<double>(dice.number(0, 12))});
  return graph;
}

struct Split {
  const LayerGraph& graph;
  const std::vector<int>& stage;  // by layer

  double handed_on(int before) const {  // by the stages before to those from it on
    double bytes = 0;
    for (int i = 0; i < graph.dag.nodes; ++i) {
      const bool read = std::ranges::any_of(graph.dag.edges, [&](const auto& edge) {
        return edge.first == i && stage[i] < before && stage[edge.second] >= before;
      });
      if (read) bytes += graph.layers[i].activation_bytes;
    }
    return bytes;
  }
};

/// The formula of pipedream.hpp for a stage with q replicas.
double batch_s(const Split& split, int which, int stages, double q, double bytes_per_s) {
  double compute_s = 0, parameter_bytes = 0;
  for (int i = 0; i < split.graph.dag.nodes; ++i) {
    if (split.stage[i] != which) continue;
    const Layer& layer = split.graph.layers[i];
    compute_s += layer.forward_s + layer.backward_s;
    parameter_bytes += layer.parameter_bytes;
  }
  double time_s = (compute_s + 4 * (q - 1) / q * parameter_bytes / bytes_per_s) / q;
  if (which == 0) return time_s;
  time_s = std::max(time_s, 2 * split.handed_on(which) / (q * bytes_per_s));
  if (which + 1 < stages)
    time_s = std::max(time_s, 2 * split.handed_on(which + 1) / (q * bytes_per_s));
  return time_s;
}

double min_batch_s(const LayerGraph& graph, const PipeDreamSetting& setting) {
  double best_s = std::numeric_limits<double>::infinity();
  test::for_all_stages(graph.dag, [&](const std::vector<int>& stage, int stages) {
    test::for_all(stages, setting.workers, [&](const std::vector<int>& more) {
      int workers = stages;
      for (const int extra : more) workers += extra;
      if (workers != setting.workers) return;
      double longest_s = 0;
      for (int which = 0; which < stages; ++which)
        longest_s = std::max(longest_s, batch_s({graph, stage}, which, stages, 1.0 + more[which],
                                                setting.bytes_per_s));
      best_s = std::min(best_s, longest_s);
    });
  });
  return best_s;
}

TEST(PipeDream, IsTheLeastOfAllSplitsAndReplications) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    const LayerGraph graph = random_layers(seed);
    const PipeDreamSetting setting{1 + static_cast<int>(seed % 5), seed % 2 == 0 ? 3.0 : 20.0};
    const double expected_s = min_batch_s(graph, setting);
    const PipeDreamPlan plan = solve_pipedream(graph, setting);
    ASSERT_NEAR(plan.batch_s, expected_s, test::rounding * expected_s);
    EXPECT_TRUE(plan.exact);
    int workers = 0;
    std::vector<int> placed;
    for (const ReplicatedStage& stage : plan.stages) {
      workers += stage.replicas;
      placed.insert(placed.end(), stage.layers.begin(), stage.layers.end());
    }
    EXPECT_EQ(workers, setting.workers);
    EXPECT_EQ(static_cast<int>(placed.size()), graph.dag.nodes);
  }
}

TEST(Layers, InputsAndUnusedItemsAreNotPlaced) {
  LayerGraph graph;
  for (const char* description : {"Input0", "Linear", "__getitem__(1)", "__getitem__(0)", "Add"})
    graph.layers.push_back({.description = description});
  graph.dag = {5, {{0, 1}, {1, 2}, {1, 3}, {3, 4}}};
  const LayerGraph placed = without_ends(graph);
  ASSERT_EQ(placed.layers.size(), 3u);
  EXPECT_EQ(placed.layers[1].description, "__getitem__(0)");
  EXPECT_THAT(placed.dag.edges, ElementsAre(std::pair(0, 1), std::pair(1, 2)));
}

}  // namespace
}  // namespace penstock::bench
