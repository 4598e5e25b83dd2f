// The network between ranks: links of their own, and links that channels share.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "simulator/network/cluster.hpp"

namespace penstock {

/// One way from a rank to another.
struct Route {
  double latency_s = 0;
  double bandwidth = 0;  // bytes per second that one transfer can reach; 0: infinite
  double propagation_s = 0;
  std::vector<int>
      shared;  // what its bytes pass together with those of others: indices of capacity

  /// Seconds of so many bytes that nobody else slows.
  double transfer_s(int64_t bytes) const;
};

class Network {
 public:
  /// Free transfers.
  Network() = default;
  /// Every pair of ranks joined by an equal link of its own for each direction.
  Network(const Link& link) : link_(link) {}  // NOLINT(google-explicit-constructor)
  /// The cluster's; ranks are its devices, node by node.
  explicit Network(const Cluster& cluster);

  Route route(int from, int to) const;
  /// The routes of all channels of a program, each from a rank to another; of what these share only
  /// what can slow their bytes.
  std::vector<Route> routes(const std::vector<std::pair<int, int>>& channels) const;
  /// Bytes per second of what is shared.
  const std::vector<double>& capacity() const { return capacity_; }
  /// When bytes move, and the compute that a transfer costs, the same everywhere; of routes the
  /// best latency and bandwidth, so that no transfer is ever faster.
  const Link& link() const { return link_; }
  /// Equal links, nothing shared.
  bool uniform() const { return places_.empty(); }

 private:
  /// Where a rank is, and what its transfers share; -1: nothing.
  struct Place {
    int node = 0, kind = 0;
    int bus_out = -1, bus_in = -1, card_out = -1, card_in = -1;
  };
  void add_node(const NodeKind& nodes, int kind, int number);
  int add_shared(double bandwidth);

  Link link_;
  std::vector<NodeKind> kinds_;
  Interconnect between_;
  std::vector<Place> places_;  // by rank
  std::vector<double> capacity_;
  int switch_ = -1;
};

}  // namespace penstock
