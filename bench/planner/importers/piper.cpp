#include "bench/planner/importers/piper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "bench/planner/importers/json_graph.hpp"

namespace penstock {

namespace {

double positive(const JsonValue& value, const std::string& key) {
  const double number = value.number(key);
  if (number <= 0) value.at(key).refuse(fmt::format("{} is not positive", number), "Raise it.");
  return number;
}

int degree(const JsonValue& value, const std::string& key) {
  int number = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
  if (error != std::errc() || end != key.data() + key.size() || number < 1 ||
      number > kMaxPeerDevices) {
    value.at(key).refuse("no tensor parallel degree", "Name the lists of TMPCs 1, 2, 4, …");
  }
  return number;
}

/// Bytes by the node at the other end; `ends` are those of the node's edges.
std::map<int, double> read_sync(const JsonValue& value, const NodeNames& names,
                                const std::vector<int>& ends) {
  std::map<int, double> result;
  for (const std::string& key : value.keys()) {
    const JsonValue entry = value.at(key);
    const int end = names.find(key, entry.place());
    if (!std::ranges::binary_search(ends, end))
      entry.refuse(fmt::format("there is no edge to node {}", key), "Remove it, or add the edge.");
    result[end] = nonnegative(value, key);
  }
  if (result.size() != ends.size()) {
    value.refuse(fmt::format("{} entries for {} edges", result.size(), ends.size()),
                 "Give one for every edge on that side of the node.");
  }
  return result;
}

PiperVariant read_variant(const JsonValue& value, const NodeNames& names,
                          const std::vector<int>& before, const std::vector<int>& after) {
  return {.name = value.text("id"),
          .time_s = nonnegative(value, "timePerSample"),
          .parameter_bytes = nonnegative(value, "parameterSize"),
          .bytes_per_sample = nonnegative(value, "memoryUsageA"),
          .bytes = nonnegative(value, "memoryUsageB"),
          .sync_in_bytes = read_sync(value.at("syncTimeFw"), names, before),
          .sync_out_bytes = read_sync(value.at("syncTimeBw"), names, after)};
}

void read_edges(const JsonValue& root, const NodeNames& names, PiperGraph& graph) {
  std::set<std::pair<int, int>> known;
  for (const JsonValue& value : root.list("edges")) {
    graph.dag.edges.push_back(read_ends(value, names));
    if (!known.insert(graph.dag.edges.back()).second)
      value.refuse("the edge is there twice", "Remove one.");
    graph.edge_bytes.push_back(nonnegative(value, "communicationCost"));
  }
}

void read_variants(const JsonValue& root, const NodeNames& names, PiperGraph& graph) {
  const auto before = graph.dag.predecessors(), after = graph.dag.successors();
  const std::vector<JsonValue> nodes = root.list("nodes");
  graph.nodes.resize(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    const JsonValue lists = nodes[i].at("TMPCs");
    for (const std::string& key : lists.keys()) {
      for (const JsonValue& variant : lists.list(key))
        graph.nodes[i].variants[degree(lists, key)].push_back(
            read_variant(variant, names, before[i], after[i]));
    }
    if (graph.nodes[i].variants.empty())
      lists.refuse("no variants", "Give at least one way to run the node.");
  }
}

}  // namespace

PiperGraph parse_piper_graph(std::string_view text, std::string_view file) {
  const nlohmann::json document = parse_json(text, file);
  const JsonValue root(document, file);
  PiperGraph graph;
  graph.devices = root.integer("maxDevices", 1, kMaxPeerDevices);
  graph.device_bytes = positive(root, "maxMemoryPerDevice");
  graph.bytes_per_s = positive(root, "bandwidth");
  graph.batch = root.integer("mbsInBatch", 1, kMaxPeerDevices);
  NodeNames names;
  for (const JsonValue& node : root.list("nodes"))
    names.add(std::to_string(node.integer("id")), node.at("id").place());
  if (names.count() == 0) root.at("nodes").refuse("no nodes", "Give at least one.");
  graph.dag.nodes = names.count();
  read_edges(root, names, graph);
  names.refuse_cycles(graph.dag, file);
  read_variants(root, names, graph);
  return graph;
}

PiperGraph read_piper_graph(const std::filesystem::path& path) {
  return parse_piper_graph(read_file(path), path.string());
}

}  // namespace penstock
