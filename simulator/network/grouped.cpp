#include "simulator/network/grouped.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string>

#include "base/error.hpp"
#include "base/quantity.hpp"

namespace penstock {

namespace {

/// As many cards as groups can share evenly, each with the bandwidth that it leaves to one part.
void share_cards(NodeKind& node, int parts, int groups) {
  const int devices_of_card = node.devices / node.cards;
  const int cards = std::gcd(node.cards, groups);
  const double of_part = std::min(parts, devices_of_card);
  const double of_node = node.card_bandwidth * node.cards / parts;
  node.card_bandwidth = std::min(node.card_bandwidth / of_part, of_node / cards);
  node.cards = cards;
}

NodeKind grouped(NodeKind node, int parts) {
  const int groups = node.devices / parts;
  share_cards(node, parts, groups);
  node.bus_bandwidth /= parts;
  if (node.cores > 0) node.cores = std::max(1, node.cores / parts);
  node.devices = groups;
  return node;
}

[[noreturn]] void refuse(const Cluster& cluster, int parts) {
  throw InputError(
      cluster.path, fmt::format("no node has {} devices for a tensor group", parts),
      "Choose a smaller tensor_parallel: the parts of a group exchange too much for the links "
      "between nodes.");
}

}  // namespace

Cluster grouped(const Cluster& cluster, int parts) {
  Cluster result = cluster;
  result.between.switch_bandwidth /= parts;
  result.nodes.clear();
  result.ranks = cluster.nodes.empty() ? cluster.ranks / parts : 0;
  for (const NodeKind& node : cluster.nodes) {
    if (node.devices < parts) continue;
    result.nodes.push_back(grouped(node, parts));
    result.ranks += node.count * result.nodes.back().devices;
  }
  if (result.ranks == 0) refuse(cluster, parts);
  return result;
}

std::vector<std::vector<int>> devices_of_groups(const Cluster& cluster, int parts) {
  std::vector<std::vector<int>> groups;
  const auto add_node = [&](int first, int devices) {
    for (int group = 0; group < devices / parts; ++group) {
      groups.emplace_back(static_cast<size_t>(parts));
      std::iota(groups.back().begin(), groups.back().end(), first + group * parts);
    }
  };
  if (cluster.nodes.empty()) add_node(0, cluster.ranks);
  int first = 0;
  for (const NodeKind& node : cluster.nodes) {
    for (int number = 0; number < node.count; ++number, first += node.devices)
      add_node(first, node.devices);
  }
  return groups;
}

std::vector<int> devices_of_ranks(const Cluster& cluster, int64_t parts,
                                  const std::vector<int>& groups, int ranks) {
  const auto all = devices_of_groups(cluster, static_cast<int>(parts));
  std::vector<int> devices;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto group = static_cast<size_t>(rank / parts);
    const auto place = groups.empty() ? group : static_cast<size_t>(groups[group]);
    devices.push_back(all[place][static_cast<size_t>(rank % parts)]);
  }
  std::vector<int> listed(devices.size());
  std::iota(listed.begin(), listed.end(), 0);
  return devices == listed || cluster.nodes.empty() ? std::vector<int>() : devices;
}

Link group_link(const Cluster& grouped) {
  if (grouped.nodes.empty()) return grouped.link;
  Link link;
  for (const NodeKind& node : grouped.nodes) {
    link.latency_s = std::max(link.latency_s, node.latency_s);
    const double bus = node.bus_full_duplex ? node.bus_bandwidth : node.bus_bandwidth / 2;
    for (const double bandwidth : {node.bandwidth, bus})
      if (bandwidth > 0 && (link.bandwidth <= 0 || bandwidth < link.bandwidth))
        link.bandwidth = bandwidth;
  }
  return link;
}

}  // namespace penstock
