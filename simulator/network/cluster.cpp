#include "simulator/network/cluster.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

namespace penstock {

double Link::transfer_s(int64_t bytes) const {
  return latency_s + (bandwidth > 0 ? static_cast<double>(bytes) / bandwidth : 0.0);
}

double Cluster::speed(int rank) const { return nodes.empty() ? 1 : place(rank).kind->speed; }

double Cluster::slowest_speed(int rank, int of_ranks, int64_t replicas) const {
  double slowest = speed(rank);
  for (int64_t replica = 1; replica < replicas; ++replica)
    slowest = std::min(slowest, speed(static_cast<int>(replica) * of_ranks + rank));
  return slowest;
}

int64_t Cluster::memory(int rank) const {
  return nodes.empty() ? memory_bytes : place(rank).kind->memory_bytes;
}

Cluster::Place Cluster::place(int rank) const {
  return place_of_device(devices.empty() ? rank : devices.at(static_cast<size_t>(rank)));
}

Cluster::Place Cluster::place_of_device(int device) const {
  int node = 0;
  for (const NodeKind& kind : nodes) {
    const int of_kind = kind.count * kind.devices;
    if (device < of_kind) return {&kind, node + device / kind.devices, device % kind.devices};
    device -= of_kind;
    node += kind.count;
  }
  throw std::out_of_range("Cluster::place: no such device");
}

Cluster on_devices(Cluster cluster, std::vector<int> devices) {
  cluster.devices = std::move(devices);
  cluster.ranks = static_cast<int>(cluster.devices.size());
  return cluster;
}

Cluster with_only(Cluster cluster, const std::vector<int>& devices) {
  std::map<int, std::vector<Cluster::Place>> left;  // by node
  for (const int device : devices) {
    const Cluster::Place place = cluster.place(device);
    left[place.node].push_back(place);
  }
  std::vector<NodeKind> nodes;
  for (const auto& [number, places] : left) {
    NodeKind node = *places.front().kind;
    std::set<int> cards;
    for (const Cluster::Place& place : places)
      cards.insert(place.device * node.cards / node.devices);
    node.count = 1;
    node.devices = static_cast<int>(places.size());
    node.cards = std::gcd(static_cast<int>(cards.size()), node.devices);
    nodes.push_back(std::move(node));
  }
  cluster.nodes = std::move(nodes);
  cluster.ranks = static_cast<int>(devices.size());
  return cluster;
}

}  // namespace penstock
