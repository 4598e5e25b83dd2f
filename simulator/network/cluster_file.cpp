#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/quantity.hpp"
#include "base/yaml.hpp"
#include "pipeline/program/program.hpp"
#include "simulator/network/cluster.hpp"

namespace penstock {

namespace {

SendMode send_mode(YamlMap& map) {
  static const std::array<std::pair<const char*, SendMode>, 3> modes = {
      {{"eager", SendMode::eager},
       {"posted", SendMode::posted},
       {"rendezvous", SendMode::rendezvous}}};
  const std::string text = map.text("send", "posted");
  std::vector<std::string> names;
  for (const auto& [name, mode] : modes) {
    if (text == name) return mode;
    names.emplace_back(name);
  }
  throw InputError(map.place("send"), fmt::format("unknown way to send: {}", text),
                   "Use eager, posted or rendezvous. " + did_you_mean(text, names));
}

double seconds(YamlMap& map, const std::string& key) {
  return map.has(key) ? parse_seconds(map.text(key), map.place(key)) : 0;
}

double bandwidth(YamlMap& map) {
  if (!map.has("bandwidth")) return 0;
  return parse_bandwidth(map.text("bandwidth"), map.place("bandwidth"));
}

/// How bytes move, the same on every link.
void read_sending(YamlMap& map, Link& link) {
  link.sender_s_per_byte = map.number("sender_s_per_byte", 0, 1, 0.0);
  link.receiver_s_per_byte = map.number("receiver_s_per_byte", 0, 1, 0.0);
  link.mode = send_mode(map);
  link.receive_depth = static_cast<int>(map.integer("receive_depth", 0, 1024, link.receive_depth));
}

Link parse_link(YamlMap map) {
  Link link;
  link.latency_s = seconds(map, "latency");
  link.bandwidth = bandwidth(map);
  link.propagation_s = seconds(map, "propagation");
  read_sending(map, link);
  map.finish();
  return link;
}

bool full_duplex(YamlMap& map) {
  const std::string text = map.text("duplex", "full");
  if (text == "full" || text == "half") return text == "full";
  throw InputError(map.place("duplex"), fmt::format("unknown duplex: {}", text),
                   "Use full (each direction its own bandwidth) or half (both share one).");
}

int64_t memory(YamlMap& map) {
  if (!map.has("memory")) return 0;
  const std::string text = map.text("memory");
  const int64_t bytes = parse_bytes(text, map.place("memory"));
  if (bytes > 0) return bytes;
  throw InputError(map.place("memory"), "no memory at all: " + text,
                   "Give what a rank has, as in 16GiB, or leave it out for no limit.");
}

void read_network_cards(YamlMap map, NodeKind& node) {
  node.cards = static_cast<int>(map.integer("cards", 1, node.devices, 1));
  if (node.devices % node.cards != 0) {
    throw InputError(map.place("cards"),
                     fmt::format("{} cards for {} devices", node.cards, node.devices),
                     "Each card serves the same number of devices.");
  }
  node.card_bandwidth = bandwidth(map);
  node.card_full_duplex = full_duplex(map);
  map.finish();
}

NodeKind parse_node(YamlMap map) {
  NodeKind node;
  node.count = static_cast<int>(map.integer("count", 1, max_ranks, 1));
  node.devices = static_cast<int>(map.integer("devices", 1, max_ranks / node.count, 1));
  node.device = map.text("device", "");
  node.memory_bytes = memory(map);
  node.cores = static_cast<int>(map.integer("cores", 1, max_ranks, 0));
  node.speed = map.number("speed", min_speed, max_speed, 1.0);
  if (map.has("link")) {
    YamlMap link = map.map("link");
    node.latency_s = seconds(link, "latency");
    node.bandwidth = bandwidth(link);
    link.finish();
  }
  if (map.has("bus")) {
    YamlMap bus = map.map("bus");
    node.bus_bandwidth = bandwidth(bus);
    node.bus_full_duplex = full_duplex(bus);
    bus.finish();
  }
  if (map.has("network")) read_network_cards(map.map("network"), node);
  map.finish();
  return node;
}

Interconnect parse_interconnect(YamlMap map) {
  Interconnect between;
  between.latency_s = seconds(map, "latency");
  between.propagation_s = seconds(map, "propagation");
  if (map.has("switch")) {
    YamlMap shared = map.map("switch");
    between.switch_bandwidth = bandwidth(shared);
    shared.finish();
  }
  map.finish();
  return between;
}

AllReduce parse_all_reduce(YamlMap map) {
  AllReduce result;
  const std::string text = map.text("algorithm", "ring");
  if (text == "tree") result.algorithm = AllReduce::Algorithm::tree;
  if (text == "fastest") result.algorithm = AllReduce::Algorithm::fastest;
  if (text != "ring" && text != "tree" && text != "fastest") {
    throw InputError(
        map.place("algorithm"), fmt::format("unknown all-reduce: {}", text),
        "Use ring, tree or fastest. " + did_you_mean(text, {"ring", "tree", "fastest"}));
  }
  result.sums = parse_gradient_sums(map);
  map.finish();
  return result;
}

/// Nodes, and the number of their ranks.
void read_nodes(YamlMap& map, Cluster& cluster) {
  int64_t ranks = 0;
  for (YamlMap& entry : map.maps("nodes")) {
    cluster.nodes.push_back(parse_node(std::move(entry)));
    const NodeKind& node = cluster.nodes.back();
    ranks += int64_t{node.count} * node.devices;
  }
  if (ranks < 1 || ranks > max_ranks) {
    throw InputError(map.place("nodes"), fmt::format("{} devices in all", ranks),
                     fmt::format("Give 1 to {}.", max_ranks));
  }
  cluster.ranks = static_cast<int>(ranks);
  if (map.has("network")) cluster.between = parse_interconnect(map.map("network"));
  read_sending(map, cluster.link);
}

}  // namespace

double parse_bandwidth(const std::string& text, const std::string& place) {
  const double value = parse_bytes_per_second(text, place);
  if (value > 0) return value;
  throw InputError(place, fmt::format("`{}` moves nothing", text),
                   "Give a rate above 0, as in 25GB/s, or leave it out for no limit.");
}

Cluster read_cluster(const std::filesystem::path& path) {
  return parse_cluster(read_file(path), path);
}

Cluster parse_cluster(const std::string& text, const std::filesystem::path& path) {
  YamlMap map = parse_yaml(text, path, "cluster");
  Cluster cluster;
  cluster.path = path.string();
  if (map.has("nodes")) {
    read_nodes(map, cluster);
  } else {
    cluster.ranks = static_cast<int>(map.integer("ranks", 1, max_ranks));
    cluster.memory_bytes = memory(map);
    if (map.has("link")) cluster.link = parse_link(map.map("link"));
  }
  if (map.has("all_reduce")) cluster.all_reduce = parse_all_reduce(map.map("all_reduce"));
  map.finish();
  return cluster;
}

}  // namespace penstock
