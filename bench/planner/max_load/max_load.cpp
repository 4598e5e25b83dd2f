#include "bench/planner/max_load/max_load.hpp"

#include <algorithm>
#include <set>

#include "bench/planner/max_load/load_search.hpp"

namespace penstock::bench {

namespace {

/// The best split along one order. Within it there are far fewer stages to look at.
double chain_load_s(const PlacementGraph& graph, const PlacementUnits& units) {
  // Sums along another way through the downsets differ in the last bits, which must not cost the
  // bound's own plan: at most some thousand additions, each off by 2^-53.
  constexpr double rounding = 1 + 1e-12;
  double any_s = 0;  // no device's load is above it
  for (const PlacementNode& node : graph.nodes)
    any_s += node.cpu_s + node.accelerator_s + node.output_s;
  Downsets chain(units.dag, 1);
  const double load_s = LoadSearch(graph, units, chain).solve(any_s * rounding);
  return std::min(load_s, any_s) * rounding;
}

std::vector<int> nodes_between(const PlacementUnits& units, const Downsets& downsets, int from,
                               int to) {
  std::vector<int> nodes;
  for (int node = 0; node < static_cast<int>(units.unit_of.size()); ++node) {
    const int unit = units.unit_of[node];
    if (downsets.contains(to, unit) && !downsets.contains(from, unit)) nodes.push_back(node);
  }
  return nodes;
}

}  // namespace

double device_load_s(const PlacementGraph& graph, const std::vector<int>& nodes, bool cpu) {
  const std::set<int> mine(nodes.begin(), nodes.end());
  double compute_s = 0, bytes = 0;
  for (const int node : nodes) {
    compute_s += cpu ? graph.nodes[node].cpu_s : graph.nodes[node].accelerator_s;
    bytes += graph.nodes[node].bytes;
    if (!cpu && !graph.nodes[node].supported) return infinite;
  }
  if (cpu) return compute_s;
  if (bytes > graph.accelerator_bytes) return infinite;
  std::set<int> moved;
  for (const auto& [from, to] : graph.dag.edges)
    if (mine.contains(from) != mine.contains(to)) moved.insert(from);
  double transfer_s = 0;
  for (const int node : moved) transfer_s += graph.nodes[node].output_s;
  return compute_s + transfer_s;
}

MaxLoadPlan solve_max_load(const PlacementGraph& graph, size_t downset_limit) {
  const PlacementUnits units = placement_units(graph);
  Downsets downsets(units.dag, downset_limit);
  LoadSearch search(graph, units, downsets);
  MaxLoadPlan plan{.downsets = downsets.count(), .exact = downsets.complete()};
  if (search.solve(chain_load_s(graph, units)) == infinite) {
    plan.load_s = infinite;
    return plan;
  }
  for (const auto& [from, to, cpu] : search.stages()) {
    MaxLoadStage stage{cpu, nodes_between(units, downsets, from, to), 0};
    stage.load_s = device_load_s(graph, stage.nodes, cpu);
    plan.load_s = std::max(plan.load_s, stage.load_s);
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

}  // namespace penstock::bench
