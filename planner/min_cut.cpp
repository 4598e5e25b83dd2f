#include "planner/min_cut.hpp"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

namespace penstock {

namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using Capacity = boost::property<boost::edge_capacity_t, int64_t>;
using Residual = boost::property<boost::edge_residual_capacity_t, int64_t, Capacity>;
using Reverse = boost::property<boost::edge_reverse_t, Traits::edge_descriptor, Residual>;
using FlowGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Reverse>;

FlowGraph flow_graph(int nodes, const std::vector<CapacityEdge>& edges) {
  FlowGraph graph(static_cast<size_t>(nodes));
  for (const CapacityEdge& edge : edges) {
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
  FlowGraph graph = flow_graph(nodes, edges);
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
  return reached;
}

}  // namespace penstock
