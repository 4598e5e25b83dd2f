#include "simulator/network/network.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace penstock {

namespace {

/// The lower of two bandwidths, where 0 is infinite.
double narrower(double a, double b) {
  if (a <= 0 || b <= 0) return std::max(a, b);
  return std::min(a, b);
}

}  // namespace

double Route::transfer_s(int64_t bytes) const {
  return Link{.latency_s = latency_s, .bandwidth = bandwidth}.transfer_s(bytes);
}

Network::Network(const Cluster& cluster)
    : link_(cluster.link), kinds_(cluster.nodes), between_(cluster.between) {
  if (kinds_.empty()) return;
  if (between_.switch_bandwidth > 0) switch_ = add_shared(between_.switch_bandwidth);
  int number = 0;
  for (size_t kind = 0; kind < kinds_.size(); ++kind) {
    for (int i = 0; i < kinds_[kind].count; ++i) {
      add_node(kinds_[kind], static_cast<int>(kind), number++);
    }
  }
  link_.latency_s = number > 1 ? between_.latency_s : std::numeric_limits<double>::infinity();
  double best = 0;
  bool infinite = false;
  for (const NodeKind& kind : kinds_) {
    if (number > 1) {
      best = std::max(best, kind.card_bandwidth);
      infinite |= kind.card_bandwidth <= 0;
    }
    if (kind.devices < 2) continue;
    link_.latency_s = std::min(link_.latency_s, kind.latency_s);
    best = std::max(best, kind.bandwidth);
    infinite |= kind.bandwidth <= 0;
  }
  link_.bandwidth = infinite ? 0 : best;
  link_.propagation_s = 0;
  if (cluster.devices.empty()) return;
  std::vector<Place> used;
  used.reserve(cluster.devices.size());
  for (const int device : cluster.devices) used.push_back(places_[static_cast<size_t>(device)]);
  places_ = std::move(used);
}

int Network::add_shared(double bandwidth) {
  capacity_.push_back(bandwidth);
  return static_cast<int>(capacity_.size()) - 1;
}

void Network::add_node(const NodeKind& nodes, int kind, int number) {
  /// One resource for each direction, or one for both.
  const auto both = [&](double bandwidth, bool full_duplex) {
    if (bandwidth <= 0) return std::pair(-1, -1);
    const int out = add_shared(bandwidth);
    return std::pair(out, full_duplex ? add_shared(bandwidth) : out);
  };
  const auto bus = both(nodes.bus_bandwidth, nodes.bus_full_duplex);
  std::vector<std::pair<int, int>> cards;
  cards.reserve(static_cast<size_t>(nodes.cards));
  for (int card = 0; card < nodes.cards; ++card) {
    cards.push_back(both(nodes.card_bandwidth, nodes.card_full_duplex));
  }
  for (int device = 0; device < nodes.devices; ++device) {
    const auto card =
        cards[static_cast<size_t>(device) * cards.size() / static_cast<size_t>(nodes.devices)];
    places_.push_back({number, kind, bus.first, bus.second, card.first, card.second});
  }
}

Route Network::route(int from, int to) const {
  if (uniform()) return {link_.latency_s, link_.bandwidth, link_.propagation_s, {}};
  const Place& here = places_[static_cast<size_t>(from)];
  const Place& there = places_[static_cast<size_t>(to)];
  const NodeKind& node = kinds_[static_cast<size_t>(here.kind)];
  Route route;
  const auto pass = [&](int shared) {
    if (shared < 0 || std::ranges::count(route.shared, shared) > 0) return;
    route.shared.push_back(shared);
    route.bandwidth = narrower(route.bandwidth, capacity_[static_cast<size_t>(shared)]);
  };
  if (here.node == there.node) {
    route.latency_s = node.latency_s;
    route.bandwidth = node.bandwidth;
    pass(here.bus_out);
    pass(here.bus_in);
    return route;
  }
  route.latency_s = between_.latency_s;
  route.propagation_s = between_.propagation_s;
  pass(here.card_out);
  pass(there.card_in);
  pass(switch_);
  return route;
}

}  // namespace penstock
