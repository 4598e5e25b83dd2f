#include "bench/planner/max_load/placement_units.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace penstock::bench {

namespace {

std::vector<int> colours(const PlacementGraph& graph) {
  std::vector<int> result;
  for (const PlacementNode& node : graph.nodes) result.push_back(node.colour);
  return numbered(result);
}

/// The edges that order the groups of nodes.
Dag forward_edges(const PlacementGraph& graph, const std::vector<int>& group) {
  std::vector<bool> has_forward(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (!graph.nodes[i].backward) has_forward[group[i]] = true;
  Dag ordered{graph.dag.nodes, {}};
  for (const auto& [from, to] : graph.dag.edges) {
    const bool orphan = !has_forward[group[from]] || !has_forward[group[to]];
    if (!graph.nodes[to].backward)
      ordered.edges.emplace_back(from, to);
    else if (graph.nodes[from].backward && orphan)
      ordered.edges.emplace_back(to, from);
  }
  return quotient(ordered, group);
}

std::vector<int> through(const std::vector<int>& groups, const std::vector<int>& map) {
  std::vector<int> result;
  result.reserve(groups.size());
  for (const int group : groups) result.push_back(map[group]);
  return numbered(result);
}

double sum(const PlacementGraph& graph, const std::vector<int>& group, int which,
           double PlacementNode::*what) {
  double total = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (group[i] == which) total += graph.nodes[i].*what;
  return total;
}

int group_count(const std::vector<int>& group) {
  return group.empty() ? 0 : *std::ranges::max_element(group) + 1;
}

/// Merges units that take no time into the only one that they have edges with.
std::vector<int> without_trivial(const PlacementGraph& graph, std::vector<int> group) {
  double all_bytes = 0;
  for (const PlacementNode& node : graph.nodes) all_bytes += node.bytes;
  const Dag order = forward_edges(graph, group);
  const int count = group_count(group);
  std::vector<std::set<int>> neighbours(count);
  const auto join = [&](int a, int b) {
    if (a == b) return;
    neighbours[a].insert(b);
    neighbours[b].insert(a);
  };
  for (const auto& [from, to] : graph.dag.edges) join(group[from], group[to]);
  for (const auto& [from, to] : order.edges) join(from, to);

  std::vector<bool> trivial(count);
  for (int unit = 0; unit < count; ++unit) {
    const bool free = sum(graph, group, unit, &PlacementNode::cpu_s) == 0 &&
                      sum(graph, group, unit, &PlacementNode::accelerator_s) == 0;
    const bool fits =
        all_bytes <= graph.accelerator_bytes || sum(graph, group, unit, &PlacementNode::bytes) == 0;
    trivial[unit] = free && fits;
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (!graph.nodes[i].supported) trivial[group[i]] = false;

  std::vector<int> into(count);
  std::iota(into.begin(), into.end(), 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (int unit = 0; unit < count; ++unit) {
      if (!trivial[unit] || into[unit] != unit || neighbours[unit].size() != 1) continue;
      const int host = *neighbours[unit].begin();
      into[unit] = host;
      neighbours[host].erase(unit);
      neighbours[unit].clear();
      changed = true;
    }
  }
  for (int& unit : into)
    while (into[unit] != unit) unit = into[unit];
  return through(group, into);
}

std::vector<Output> outputs(const PlacementGraph& graph, const std::vector<int>& unit_of) {
  const auto successors = graph.dag.successors();
  std::map<std::pair<int, std::vector<int>>, double> moves;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    std::set<int> readers;
    for (const int reader : successors[i]) readers.insert(unit_of[reader]);
    readers.erase(unit_of[i]);
    if (!readers.empty())
      moves[{unit_of[i], {readers.begin(), readers.end()}}] += graph.nodes[i].output_s;
  }
  std::vector<Output> result;
  result.reserve(moves.size());
  for (const auto& [ends, move_s] : moves) result.push_back({ends.first, ends.second, move_s});
  return result;
}

}  // namespace

PlacementUnits placement_units(const PlacementGraph& graph) {
  std::vector<int> unit_of = colours(graph);
  unit_of = through(unit_of, components(forward_edges(graph, unit_of)));
  unit_of = without_trivial(graph, unit_of);
  PlacementUnits units{.unit_of = unit_of, .dag = forward_edges(graph, unit_of)};
  const size_t count = group_count(unit_of);
  units.dag.nodes = static_cast<int>(count);
  units.cpu_s.resize(count);
  units.accelerator_s.resize(count);
  units.bytes.resize(count);
  units.supported.assign(count, true);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const PlacementNode& node = graph.nodes[i];
    units.cpu_s[unit_of[i]] += node.cpu_s;
    units.accelerator_s[unit_of[i]] += node.accelerator_s;
    units.bytes[unit_of[i]] += node.bytes;
    if (!node.supported) units.supported[unit_of[i]] = false;
  }
  units.outputs = outputs(graph, unit_of);
  return units;
}

}  // namespace penstock::bench
