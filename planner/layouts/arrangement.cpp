#include "planner/layouts/arrangement.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

namespace penstock {

namespace {

constexpr size_t max_permuted = 4;

bool same_kind(NodeKind a, const NodeKind& b) {
  a.count = b.count;
  return a == b;
}

/// The kinds of device, each once, in the order listed; and the devices of each.
struct Kinds {
  std::vector<const NodeKind*> of;
  std::vector<std::vector<int>> devices;
  std::vector<size_t> of_node;  // by node of the cluster
};

Kinds kinds_of(const Cluster& cluster) {
  Kinds kinds;
  int device = 0;
  for (const NodeKind& node : cluster.nodes) {
    const auto known =
        std::ranges::find_if(kinds.of, [&](const NodeKind* one) { return same_kind(*one, node); });
    const auto kind = static_cast<size_t>(known - kinds.of.begin());
    if (known == kinds.of.end()) {
      kinds.of.push_back(&node);
      kinds.devices.emplace_back();
    }
    for (int i = 0; i < node.count * node.devices; ++i) kinds.devices[kind].push_back(device++);
    kinds.of_node.insert(kinds.of_node.end(), static_cast<size_t>(node.count), kind);
  }
  return kinds;
}

/// In which kinds follow one another.
std::vector<std::vector<size_t>> orders(const Kinds& kinds) {
  std::vector<size_t> order(kinds.of.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<std::vector<size_t>> all;
  if (order.size() <= max_permuted) {
    do all.push_back(order);
    while (std::ranges::next_permutation(order).found);
    return all;
  }
  all.push_back(order);
  const auto speed = [&](size_t kind) { return kinds.of[kind]->speed; };
  std::ranges::stable_sort(order, std::greater{}, speed);
  all.push_back(order);
  std::ranges::reverse(order);
  all.push_back(order);
  return all;
}

/// Numbers in the order in which they are first asked for.
class Names {
 public:
  explicit Names(size_t count) : names_(count, -1) {}
  int of(int number) {
    int& name = names_[static_cast<size_t>(number)];
    return name < 0 ? name = count_++ : name;
  }
  int count() const { return count_; }

 private:
  std::vector<int> names_;
  int count_ = 0;
};

/// A layout's view of its devices: of each rank the kind, and which ranks share a node and a
/// card.
using Signature = std::vector<std::tuple<size_t, int, int>>;

Signature signature(const Cluster& cluster, const Kinds& kinds, const std::vector<int>& devices) {
  const int cards = std::ranges::max(cluster.nodes, {}, &NodeKind::cards).cards;
  Names nodes(kinds.of_node.size()), all_cards(kinds.of_node.size() * static_cast<size_t>(cards));
  Signature result;
  result.reserve(devices.size());
  for (const int device : devices) {
    const Cluster::Place place = cluster.place_of_device(device);
    const int card = place.device * place.kind->cards / place.kind->devices;
    result.emplace_back(kinds.of_node[static_cast<size_t>(place.node)], nodes.of(place.node),
                        all_cards.of(place.node * cards + card));
  }
  // Cards carry what goes to other nodes.
  if (nodes.count() < 2) {
    for (auto& [kind, node, card] : result) card = 0;
  }
  return result;
}

}  // namespace

std::vector<std::vector<int>> arrangements(const Cluster& cluster, int ranks, int64_t replicas) {
  std::vector<std::vector<int>> result{{}};
  if (cluster.nodes.empty()) return result;
  const auto count = static_cast<size_t>(ranks * replicas);
  const Kinds kinds = kinds_of(cluster);
  std::vector<int> listed(count);
  std::iota(listed.begin(), listed.end(), 0);
  std::set<Signature> seen{signature(cluster, kinds, listed)};
  const auto add = [&](const std::vector<int>& devices) {
    if (seen.insert(signature(cluster, kinds, devices)).second) result.push_back(devices);
  };
  for (const std::vector<size_t>& order : orders(kinds)) {
    std::vector<int> apart;
    for (const size_t kind : order) {
      apart.insert(apart.end(), kinds.devices[kind].begin(), kinds.devices[kind].end());
    }
    apart.resize(count);
    add(apart);
    std::vector<int> together;
    for (int64_t replica = 0; replica < replicas; ++replica) {
      for (int64_t rank = 0; rank < ranks; ++rank) {
        together.push_back(apart[static_cast<size_t>(rank * replicas + replica)]);
      }
    }
    add(together);
  }
  return result;
}

}  // namespace penstock
