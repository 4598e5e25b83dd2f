// Directed graphs of numbered nodes, as importers read them and searches cut them.
#pragma once

#include <utility>
#include <vector>

namespace penstock {

struct Dag {
  int nodes = 0;                           // 0 .. nodes - 1
  std::vector<std::pair<int, int>> edges;  // from, to; the same edge may occur twice

  std::vector<std::vector<int>> successors() const;
  std::vector<std::vector<int>> predecessors() const;
};

/// For every node the number of its strongly connected component: two nodes have the same where
/// each reaches the other. Without a cycle every node has its own.
std::vector<int> components(const Dag& dag);

/// The nodes, ascending, of one strongly connected component with a cycle in it: that of the
/// smallest such node. Empty if there is none.
std::vector<int> nodes_in_cycle(const Dag& dag);

/// Every node after all that have an edge to it. The same for the same graph. There must be no
/// cycle.
std::vector<int> topological_order(const Dag& dag);

/// For every node the number of its chain: u and v share one where u -> v is the only edge out of u
/// and the only one into v. Who works on chains instead of nodes gives up the cuts inside them.
/// Chains are numbered by their smallest nodes.
std::vector<int> chains(const Dag& dag);

/// The graph of the groups; edges inside a group disappear, equal ones become one.
/// `groups[node]` counts from 0 without gaps.
Dag quotient(const Dag& dag, const std::vector<int>& groups);

/// The same partition with groups numbered from 0 by their smallest nodes.
std::vector<int> numbered(const std::vector<int>& groups);

}  // namespace penstock
