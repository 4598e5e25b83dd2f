#include <fmt/format.h>

#include <array>
#include <utility>

#include "graph/error.hpp"
#include "graph/file.hpp"
#include "pipeline/quantity.hpp"
#include "pipeline/yaml.hpp"
#include "simulator/cluster.hpp"

namespace penstock {

namespace {

constexpr int64_t most_ranks = 1 << 20;

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
  const std::string text = map.text("bandwidth");
  const double value = parse_bytes_per_second(text, map.place("bandwidth"));
  if (value > 0) return value;
  throw InputError(map.place("bandwidth"), fmt::format("{} moves nothing", text),
                   "Give a rate above 0, as in 25GB/s, or leave it out for no limit.");
}

Link parse_link(YamlMap map) {
  Link link;
  link.latency_s = seconds(map, "latency");
  link.bandwidth = bandwidth(map);
  link.propagation_s = seconds(map, "propagation");
  link.sender_s_per_byte = map.number("sender_s_per_byte", 0, 1, 0.0);
  link.receiver_s_per_byte = map.number("receiver_s_per_byte", 0, 1, 0.0);
  link.mode = send_mode(map);
  link.receive_depth = static_cast<int>(map.integer("receive_depth", 0, 1024, link.receive_depth));
  map.finish();
  return link;
}

}  // namespace

Cluster read_cluster(const std::filesystem::path& path) {
  return parse_cluster(read_file(path), path);
}

Cluster parse_cluster(const std::string& text, const std::filesystem::path& path) {
  YamlMap map = parse_yaml(text, path, "cluster");
  Cluster cluster;
  cluster.path = path.string();
  cluster.ranks = static_cast<int>(map.integer("ranks", 1, most_ranks));
  if (map.has("memory")) {
    cluster.memory_bytes = parse_bytes(map.text("memory"), map.place("memory"));
    if (cluster.memory_bytes <= 0) {
      throw InputError(map.place("memory"), "no memory at all: " + map.text("memory"),
                       "Give what a rank has, as in 16GiB, or leave it out for no limit.");
    }
  }
  if (map.has("link")) cluster.link = parse_link(map.map("link"));
  map.finish();
  return cluster;
}

}  // namespace penstock
