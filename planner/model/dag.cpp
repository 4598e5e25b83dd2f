#include "planner/model/dag.hpp"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/strong_components.hpp>
#include <boost/graph/topological_sort.hpp>
#include <iterator>
#include <map>
#include <set>

namespace penstock {

namespace {

using BoostDag = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;

BoostDag as_boost(const Dag& dag) {
  return {dag.edges.begin(), dag.edges.end(), static_cast<size_t>(dag.nodes)};
}

std::vector<std::vector<int>> neighbours(const Dag& dag, bool backwards) {
  std::vector<std::vector<int>> result(dag.nodes);
  for (const auto& [from, to] : dag.edges)
    result[backwards ? to : from].push_back(backwards ? from : to);
  for (std::vector<int>& list : result) {
    std::ranges::sort(list);
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return result;
}

}  // namespace

std::vector<std::vector<int>> Dag::successors() const { return neighbours(*this, false); }
std::vector<std::vector<int>> Dag::predecessors() const { return neighbours(*this, true); }

std::vector<int> components(const Dag& dag) {
  const BoostDag graph = as_boost(dag);
  std::vector<int> component(dag.nodes);
  boost::strong_components(
      graph, boost::make_iterator_property_map(component.begin(), get(boost::vertex_index, graph)));
  return numbered(component);
}

std::vector<int> nodes_in_cycle(const Dag& dag) {
  const std::vector<int> component = components(dag);
  int found = dag.nodes;
  for (const auto& [from, to] : dag.edges)
    if (component[from] == component[to]) found = std::min(found, component[from]);
  std::vector<int> nodes;
  for (int node = 0; node < dag.nodes; ++node)
    if (component[node] == found) nodes.push_back(node);
  return nodes;
}

std::vector<int> topological_order(const Dag& dag) {
  const BoostDag graph = as_boost(dag);
  std::vector<int> order;
  boost::topological_sort(graph, std::back_inserter(order));
  std::ranges::reverse(order);
  return order;
}

std::vector<int> chains(const Dag& dag) {
  const auto successors = dag.successors(), predecessors = dag.predecessors();
  std::vector<int> chain(dag.nodes, -1);
  for (const int node : topological_order(dag)) {
    const bool goes_on =
        predecessors[node].size() == 1 && successors[predecessors[node].front()].size() == 1;
    chain[node] = goes_on ? chain[predecessors[node].front()] : node;
  }
  return numbered(chain);
}

Dag quotient(const Dag& dag, const std::vector<int>& groups) {
  std::set<std::pair<int, int>> edges;
  for (const auto& [from, to] : dag.edges)
    if (groups[from] != groups[to]) edges.emplace(groups[from], groups[to]);
  const int count = groups.empty() ? 0 : *std::ranges::max_element(groups) + 1;
  return {count, {edges.begin(), edges.end()}};
}

std::vector<int> numbered(const std::vector<int>& groups) {
  std::map<int, int> number;
  std::vector<int> result;
  result.reserve(groups.size());
  for (const int group : groups)
    result.push_back(number.emplace(group, static_cast<int>(number.size())).first->second);
  return result;
}

}  // namespace penstock
