#include "planner/model/min_cut.hpp"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <numeric>

namespace penstock {

namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using Capacity = boost::property<boost::edge_capacity_t, int64_t>;
using Residual = boost::property<boost::edge_residual_capacity_t, int64_t, Capacity>;
using Reverse = boost::property<boost::edge_reverse_t, Traits::edge_descriptor, Residual>;
using FlowGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Reverse>;

/// `node` and all that infinite edges lead to from it, or, backwards, from which they lead to it.
void merge(int node, const std::vector<CapacityEdge>& edges, bool backwards,
           std::vector<int>& stands_for) {
  std::vector<std::vector<int>> next(stands_for.size());
  for (const CapacityEdge& edge : edges) {
    if (edge.capacity < CapacityEdge::infinite) continue;
    next[static_cast<size_t>(backwards ? edge.to : edge.from)].push_back(backwards ? edge.from
                                                                                   : edge.to);
  }
  std::vector<int> open{node};
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    for (const int other : next[static_cast<size_t>(at)]) {
      int& one = stands_for[static_cast<size_t>(other)];
      if (one == node) continue;
      one = node;
      open.push_back(other);
    }
  }
}

/// Nodes that no cut parts from source or sink become one with it: then no more flows than the
/// finite capacities add up to, wherever flows meet.
std::vector<int> merged(int nodes, const std::vector<CapacityEdge>& edges, int source, int sink) {
  std::vector<int> stands_for(static_cast<size_t>(nodes));
  std::iota(stands_for.begin(), stands_for.end(), 0);
  merge(source, edges, false, stands_for);
  merge(sink, edges, true, stands_for);
  return stands_for;
}

FlowGraph flow_graph(const std::vector<int>& stands_for, const std::vector<CapacityEdge>& edges,
                     int source, int sink) {
  FlowGraph graph(stands_for.size());
  for (CapacityEdge edge : edges) {
    edge.from = stands_for[static_cast<size_t>(edge.from)];
    edge.to = stands_for[static_cast<size_t>(edge.to)];
    if (edge.from == edge.to || edge.to == source || edge.from == sink) continue;
    const auto there = add_edge(edge.from, edge.to, graph).first;
    const auto back = add_edge(edge.to, edge.from, graph).first;
    put(boost::edge_capacity, graph, there, edge.capacity);
    put(boost::edge_capacity, graph, back, 0);
    put(boost::edge_reverse, graph, there, back);
    put(boost::edge_reverse, graph, back, there);
  }
  return graph;
}

}  // namespace

std::vector<char> min_cut(int nodes, const std::vector<CapacityEdge>& edges, int source, int sink) {
  const std::vector<int> stands_for = merged(nodes, edges, source, sink);
  FlowGraph graph = flow_graph(stands_for, edges, source, sink);
  push_relabel_max_flow(graph, source, sink);
  const auto residual = get(boost::edge_residual_capacity, graph);
  std::vector<char> reached(static_cast<size_t>(nodes), 0);
  std::vector<int> open{source};
  reached[static_cast<size_t>(source)] = 1;
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    for (auto [edge, end] = out_edges(node, graph); edge != end; ++edge) {
      const auto next = target(*edge, graph);
      if (get(residual, *edge) <= 0 || reached[next]) continue;
      reached[next] = 1;
      open.push_back(static_cast<int>(next));
    }
  }
  for (size_t node = 0; node < reached.size(); ++node)
    reached[node] = reached[static_cast<size_t>(stands_for[node])];
  return reached;
}

}  // namespace penstock
