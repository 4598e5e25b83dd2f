// Piper's objective against trying every plan.
#include "bench/planner/piper/piper.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "bench/planner/cheapest.hpp"
#include "tests/bench/planner/instances.hpp"

namespace penstock::bench {
namespace {

constexpr double none = std::numeric_limits<double>::infinity();

PiperGraph random_piper(uint64_t seed) {
  test::Dice dice(seed);
  PiperGraph graph{.devices = dice.number(1, 5),
                   .device_bytes = static_cast<double>(dice.number(5, 60)),
                   .bytes_per_s = static_cast<double>(dice.number(1, 40)),
                   .batch = dice.number(1, 6)};
  graph.dag = test::random_dag(dice, dice.number(1, 4), 50);
  for (size_t i = 0; i < graph.dag.edges.size(); ++i) graph.edge_bytes.push_back(dice.number(0, 6));
  for (int node = 0; node < graph.dag.nodes; ++node) {
    auto& variants = graph.nodes.emplace_back().variants;
    for (const int t : {1, 2}) {
      if (t == 2 && dice.percent(30)) continue;
      for (int i = dice.number(1, 2); i > 0; --i) {
        PiperVariant& variant = variants[t].emplace_back();
        variant.time_s = 0.5 * dice.number(0, 16) / t;
        variant.parameter_bytes = dice.number(0, 9);
        variant.bytes_per_sample = dice.number(0, 9);
        variant.bytes = dice.number(0, 9);
        for (const auto& [from, to] : graph.dag.edges) {
          if (to == node) variant.sync_in_bytes[from] = dice.number(0, 4);
          if (from == node) variant.sync_out_bytes[to] = dice.number(0, 4);
        }
      }
    }
  }
  return graph;
}

/// One plan: by node its stage and variant, by stage its degrees.
struct Plan {
  std::vector<int> stage, variant, d, t;
};

/// The formula of piper.hpp for a stage; infinite where it cannot be.
double sample_s(const PiperGraph& graph, const Plan& plan, int which) {
  const double d = plan.d[which];
  int behind = 0;
  for (size_t i = which; i < plan.d.size(); ++i) behind += plan.d[i];
  const int in_flight = (behind + plan.d[which] - 1) / plan.d[which];
  double time_s = 0, bytes = 0;
  for (int node = 0; node < graph.dag.nodes; ++node) {
    if (plan.stage[node] != which) continue;
    const auto found = graph.nodes[node].variants.find(plan.t[which]);
    if (found == graph.nodes[node].variants.end()) return none;
    if (plan.variant[node] >= static_cast<int>(found->second.size())) return none;
    const PiperVariant& variant = found->second[plan.variant[node]];
    double moved = 0;
    for (size_t i = 0; i < graph.dag.edges.size(); ++i) {
      const auto [from, to] = graph.dag.edges[i];
      if (plan.stage[from] == plan.stage[to]) continue;
      if (to == node) moved += 2 * (graph.edge_bytes[i] + variant.sync_in_bytes.at(from));
      if (from == node) moved += 2 * (graph.edge_bytes[i] + variant.sync_out_bytes.at(to));
    }
    time_s += (variant.time_s + moved / graph.bytes_per_s) / d +
              4 * (d - 1) / d * variant.parameter_bytes / (graph.batch * graph.bytes_per_s);
    bytes += variant.bytes + in_flight * variant.bytes_per_sample;
  }
  return bytes > graph.device_bytes ? none : time_s;
}

double plan_s(const PiperGraph& graph, const Plan& plan) {
  int devices = 0, samples = 0;
  for (size_t i = 0; i < plan.d.size(); ++i) {
    if (graph.batch % plan.d[i] != 0) return none;
    devices += plan.d[i] * plan.t[i];
    samples += plan.d[i];
  }
  if (devices > graph.devices || samples > graph.batch) return none;
  double longest_s = 0;
  for (int which = 0; which < static_cast<int>(plan.d.size()); ++which)
    longest_s = std::max(longest_s, sample_s(graph, plan, which));
  return longest_s;
}

double min_sample_s(const PiperGraph& graph) {
  double best_s = none;
  test::for_all_stages(graph.dag, [&](const std::vector<int>& stage, int stages) {
    if (stages > graph.devices) return;
    test::for_all(stages, graph.devices * 2, [&](const std::vector<int>& degrees) {
      Plan plan{.stage = stage};
      int devices = 0;
      for (const int degree : degrees) {
        plan.d.push_back(degree / 2 + 1);
        plan.t.push_back(degree % 2 + 1);
        devices += plan.d.back() * plan.t.back();
      }
      if (devices > graph.devices) return;
      test::for_all(graph.dag.nodes, 2, [&](const std::vector<int>& variant) {
        plan.variant = variant;
        best_s = std::min(best_s, plan_s(graph, plan));
      });
    });
  });
  return best_s;
}

TEST(Piper, IsTheLeastOfAllPlans) {
  int fits = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    const PiperGraph graph = random_piper(seed);
    const double expected_s = min_sample_s(graph);
    const PiperPlan plan = solve_piper(graph);
    EXPECT_TRUE(plan.exact);
    if (expected_s == none) {
      EXPECT_EQ(plan.sample_s, none);
      continue;
    }
    ++fits;
    ASSERT_NEAR(plan.sample_s, expected_s, test::rounding * expected_s);
    EXPECT_EQ(plan.sample_s, piper_sample_s(graph, plan.stages));
  }
  EXPECT_GT(fits, 700);
}

TEST(Piper, EndsWhereNothingTakesAnyTime) {
  PiperGraph graph{.devices = 2, .device_bytes = 1, .bytes_per_s = 1, .batch = 2};
  graph.nodes.resize(1);
  graph.nodes[0].variants[1].emplace_back();
  graph.dag.nodes = 1;
  EXPECT_EQ(solve_piper(graph).sample_s, 0);
}

TEST(Cheapest, FitsAndIsTheFastestOfAllChoices) {
  int tight = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    test::Dice dice(seed);
    std::vector<std::vector<Variant>> items(dice.number(1, 6));
    for (auto& variants : items)
      for (int i = dice.number(1, 3); i > 0; --i)
        variants.push_back({0.25 * dice.number(0, 20), static_cast<double>(dice.number(0, 20))});
    const double capacity = dice.number(0, 60);
    double expected_s = none;
    bool fastest_fits = false;
    test::for_all(static_cast<int>(items.size()), 3, [&](const std::vector<int>& choice) {
      double time_s = 0, bytes = 0;
      for (size_t i = 0; i < items.size(); ++i) {
        if (choice[i] >= static_cast<int>(items[i].size())) return;
        time_s += items[i][choice[i]].time_s;
        bytes += items[i][choice[i]].bytes;
      }
      if (bytes <= capacity && time_s < expected_s) expected_s = time_s;
    });
    const Choice found = cheapest(items, capacity);
    EXPECT_EQ(found.time_s, expected_s);  // multiples of 1/4: exact
    const TimeRange range = time_range(items, capacity);
    EXPECT_LE(range.least_s, expected_s);
    EXPECT_GE(range.most_s, expected_s);
    EXPECT_EQ(range.most_s == none, expected_s == none);
    double fastest_s = 0;
    for (const auto& variants : items)
      fastest_s += std::ranges::min(variants, {}, &Variant::time_s).time_s;
    fastest_fits = fastest_s == expected_s;
    if (expected_s < none && !fastest_fits) ++tight;
    if (expected_s == none) continue;
    double bytes = 0;
    for (size_t i = 0; i < items.size(); ++i) bytes += items[i][found.variants[i]].bytes;
    EXPECT_LE(bytes, capacity);
  }
  EXPECT_GT(tight, 100);  // where there was something to choose
}

}  // namespace
}  // namespace penstock::bench
