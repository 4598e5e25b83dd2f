#include "bench/planner/importers/layer_graph.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "bench/planner/importers/node_names.hpp"

namespace penstock {

namespace {

constexpr std::string_view between = " -- ";

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (size_t end; (end = text.find(separator)) != std::string_view::npos;) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + separator.size());
  }
  parts.push_back(text);
  return parts;
}

/// One line and where it stands.
struct Line {
  std::string_view text, file;
  int number;

  std::string place() const { return fmt::format("{}:{}", file, number); }
  [[noreturn]] void refuse(std::string_view problem, std::string_view cure) const {
    throw InputError(place(), problem, cure);
  }
};

double amount(const Line& line, std::string_view key, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    line.refuse(fmt::format("{}={} is not a number", key, text), "Write a number such as 1.25.");
  }
  if (value < 0) line.refuse(fmt::format("{}={} is negative", key, text), "Write 0 or more.");
  return value;
}

/// A number, or a list of them, which is added up.
double total(const Line& line, std::string_view key, std::string_view text) {
  if (!text.starts_with('[')) return amount(line, key, text);
  if (!text.ends_with(']')) {
    line.refuse(fmt::format("the list {}={} does not end", key, text),
                "Write lists as [1.0; 2.0].");
  }
  double sum = 0;
  for (const std::string_view part : split(text.substr(1, text.size() - 2), ";"))
    sum += amount(line, key, trim(part));
  return sum;
}

/// The text behind `key=`.
std::string_view behind(const Line& line, std::string_view field, std::string_view key) {
  field = trim(field);
  if (!field.starts_with(key) || !field.substr(key.size()).starts_with('=')) {
    line.refuse(fmt::format("`{}` stands where {}= is expected", field, key),
                "A layer is `NAME -- DESCRIPTION -- forward_compute_time=…, "
                "backward_compute_time=…, activation_size=…, parameter_size=…`.");
  }
  return field.substr(key.size() + 1);
}

Layer read_layer(const Line& line) {
  const std::vector<std::string_view> parts = split(line.text, between);
  if (parts.size() < 3 || parts.size() > 4 || trim(parts[0]).empty()) {
    line.refuse(fmt::format("{} parts between ` -- ` instead of 3 or 4", parts.size()),
                "A layer is `NAME -- DESCRIPTION -- COSTS[ -- stage_id=N]`; an edge is indented.");
  }
  constexpr std::array<std::string_view, 4> keys = {"forward_compute_time", "backward_compute_time",
                                                    "activation_size", "parameter_size"};
  const std::vector<std::string_view> fields = split(parts[2], ", ");
  if (fields.size() != keys.size()) {
    line.refuse(fmt::format("{} costs instead of 4", fields.size()),
                "Give the times forward and backward and the sizes of activation and parameters.");
  }
  std::array<double, 4> values{};
  for (size_t i = 0; i < keys.size(); ++i)
    values[i] = total(line, keys[i], behind(line, fields[i], keys[i]));
  if (parts.size() == 4) amount(line, "stage_id", behind(line, parts[3], "stage_id"));
  return {std::string(trim(parts[0])),
          std::string(trim(parts[1])),
          values[0] * 1e-3,
          values[1] * 1e-3,
          values[2],
          values[3]};
}

void add_edge(const Line& line, const NodeNames& names, LayerGraph& graph,
              std::set<std::pair<int, int>>& known) {
  const std::vector<std::string_view> ends = split(trim(line.text), between);
  if (ends.size() != 2) {
    line.refuse(fmt::format("`{}` is no edge", trim(line.text)), "An edge is `FROM -- TO`.");
  }
  const std::pair<int, int> edge(names.find(std::string(trim(ends[0])), line.place()),
                                 names.find(std::string(trim(ends[1])), line.place()));
  if (!known.insert(edge).second) {
    line.refuse(fmt::format("the edge {} is there twice", trim(line.text)), "Remove one.");
  }
  graph.dag.edges.push_back(edge);
}

}  // namespace

bool is_layer_graph(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] != '{' && text[first] != '[';
}

LayerGraph parse_layer_graph(std::string_view text, std::string_view file) {
  LayerGraph graph;
  NodeNames names;
  std::vector<Line> edges;
  int number = 0;
  for (const std::string_view content : split(text, "\n")) {
    const Line line{content, file, ++number};
    if (trim(content).empty()) continue;
    if (content.starts_with(' ') || content.starts_with('\t')) {
      edges.push_back(line);
      continue;
    }
    graph.layers.push_back(read_layer(line));
    names.add(graph.layers.back().name, line.place());
  }
  if (graph.layers.empty()) {
    throw InputError(file, "no layers", "Give a file with a line for every layer.");
  }
  graph.dag.nodes = names.count();
  std::set<std::pair<int, int>> known;
  for (const Line& line : edges) add_edge(line, names, graph, known);
  names.refuse_cycles(graph.dag, file);
  return graph;
}

LayerGraph read_layer_graph(const std::filesystem::path& path) {
  return parse_layer_graph(read_file(path), path.string());
}

}  // namespace penstock
