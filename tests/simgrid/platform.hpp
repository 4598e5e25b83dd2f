// The network that a program is replayed on: one link per channel, and what channels share.
#pragma once

#include <map>
#include <utility>

namespace penstock::testing {

/// A channel's own link: `latency_s`, then the bytes at up to `bandwidth` bytes per second, and
/// `propagation_s` more until they have arrived, in which the link is free for the next message.
struct Wire {
  double latency_s = 0;
  double bandwidth = 0;  // 0: infinite
  double propagation_s = 0;
};

/// The bandwidth that channels share, in bytes per second; 0: no limit.
struct Capacity {
  double out = 0, in = 0;
  bool half_duplex = false;  // `out` is for both ways together

  bool limits() const { return out > 0 || in > 0; }
};

/// Rank r sits on node r / ranks_per_node. A channel inside a node goes through the node's bus, out
/// and in; one between two nodes goes out through a card of the sender's node, through the switch,
/// and in through a card of the receiver's. A node's `cards` serve as many neighbouring ranks each.
/// Without bus, cards and switch nothing is shared: each channel has its wire.
struct Platform {
  int ranks_per_node = 1, cards = 1;
  Wire inside;                                  // between ranks of a node
  Wire between;                                 // between nodes
  std::map<std::pair<int, int>, Wire> special;  // by sending and receiving rank, instead of those
  Capacity bus, card;                           // of every node; of every card
  double switch_capacity = 0;                   // of all channels between nodes together

  bool shares() const { return bus.limits() || card.limits() || switch_capacity > 0; }
  int node(int rank) const { return rank / ranks_per_node; }
  /// Numbered through all nodes.
  int card_of(int rank) const {
    return node(rank) * cards + rank % ranks_per_node * cards / ranks_per_node;
  }

  const Wire& wire(int sender, int receiver) const {
    const auto found = special.find({sender, receiver});
    if (found != special.end()) return found->second;
    return node(sender) == node(receiver) ? inside : between;
  }

  /// The same wire for every channel, and nothing shared.
  static Platform plain(Wire wire) { return {.inside = wire, .between = wire}; }
};

}  // namespace penstock::testing
