// The network that a program is replayed on: one link per channel, and what channels share.
#pragma once

#include <map>
#include <utility>

namespace penstock::testing {

/// A channel's own link: `latency_s`, then the bytes at up to `bandwidth` bytes per second.
struct Wire {
  double latency_s = 0;
  double bandwidth = 0;  // 0: infinite
};

/// Rank r sits on node r / ranks_per_node. A channel between two nodes also goes through the card of
/// the sender's node, the switch, and the card of the receiver's node; capacities are in bytes per
/// second, 0 means no limit. Without cards and switch nothing is shared: each channel has its wire.
struct Platform {
  int ranks_per_node = 1;
  Wire inside;                                  // between ranks of a node
  Wire between;                                 // between nodes
  std::map<std::pair<int, int>, Wire> special;  // by sending and receiving rank, instead of those
  double card_out = 0, card_in = 0;             // of every node
  bool half_duplex = false;                     // a card's card_out is for both ways together
  double switch_capacity = 0;                   // of all channels between nodes together

  bool shares() const { return card_out > 0 || card_in > 0 || switch_capacity > 0; }
  int node(int rank) const { return rank / ranks_per_node; }

  const Wire& wire(int sender, int receiver) const {
    const auto found = special.find({sender, receiver});
    if (found != special.end()) return found->second;
    return node(sender) == node(receiver) ? inside : between;
  }

  /// The same wire for every channel, and nothing shared.
  static Platform plain(Wire wire) { return {.inside = wire, .between = wire}; }
};

}  // namespace penstock::testing
