#include "bench/planner/importers/device_placement.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "bench/planner/importers/json_graph.hpp"

namespace penstock {

namespace {

constexpr double seconds = 1e-3;  // the file's unit of time

/// Files write yes and no as 1 and 0, or as true and false.
bool flag(const JsonValue& value, const std::string& key) {
  const JsonValue member = value.at(key);
  return member.json().is_boolean() ? member.json().get<bool>() : value.integer(key, 0, 1) == 1;
}

/// A node without a colour gets one that no other has.
class Colours {
 public:
  int of(const JsonValue& node) {
    if (!node.has("colorClass")) return next_++;
    const auto [found, is_new] = numbers_.emplace(node.integer("colorClass"), next_);
    if (is_new) ++next_;
    return found->second;
  }

 private:
  std::map<int64_t, int> numbers_;
  int next_ = 0;
};

PlacementNode read_node(const JsonValue& value, Colours& colours) {
  return {.cpu_s = nonnegative(value, "cpuLatency") * seconds,
          .accelerator_s = nonnegative(value, "fpgaLatency") * seconds,
          .bytes = value.has("size") ? nonnegative(value, "size") : 0.0,
          .supported = flag(value, "supportedOnFpga"),
          .backward = flag(value, "isBackwardNode"),
          .colour = colours.of(value)};
}

void read_edge(const JsonValue& value, const NodeNames& names, PlacementGraph& graph,
               std::vector<bool>& has_output) {
  const auto [from, to] = read_ends(value, names);
  const double cost_s = nonnegative(value, "cost") * seconds;
  PlacementNode& source = graph.nodes[from];
  if (has_output[from] && source.output_s != cost_s) {
    value.at("cost").refuse(
        fmt::format("{} s is another cost than the {} s of an edge before it out of the same node",
                    cost_s, source.output_s),
        "A node has one output: give all edges out of it the same cost.");
  }
  if (source.backward && !graph.nodes[to].backward) {
    value.refuse("an edge from a backward to a forward node",
                 "Turn it around, or correct isBackwardNode of its ends.");
  }
  has_output[from] = true;
  source.output_s = cost_s;
  graph.dag.edges.emplace_back(from, to);
}

}  // namespace

PlacementGraph parse_placement_graph(std::string_view text, std::string_view file) {
  const nlohmann::json document = parse_json(text, file);
  const JsonValue root(document, file);
  PlacementGraph graph;
  graph.accelerators = root.integer("maxFPGAs", 0, kMaxPeerDevices);
  graph.cpus = root.integer("maxCPUs", 0, kMaxPeerDevices);
  graph.accelerator_bytes = nonnegative(root, "maxSizePerFPGA");
  if (graph.accelerators + graph.cpus == 0) root.refuse("no devices", "Raise maxFPGAs or maxCPUs.");
  NodeNames names;
  Colours colours;
  for (const JsonValue& node : root.list("nodes")) {
    names.add(std::to_string(node.integer("id")), node.at("id").place());
    graph.nodes.push_back(read_node(node, colours));
  }
  if (graph.nodes.empty()) root.at("nodes").refuse("no nodes", "Give at least one.");
  graph.dag.nodes = names.count();
  std::vector<bool> has_output(graph.nodes.size());
  for (const JsonValue& edge : root.list("edges")) read_edge(edge, names, graph, has_output);
  names.refuse_cycles(graph.dag, file);
  return graph;
}

PlacementGraph read_placement_graph(const std::filesystem::path& path) {
  return parse_placement_graph(read_file(path), path.string());
}

}  // namespace penstock
