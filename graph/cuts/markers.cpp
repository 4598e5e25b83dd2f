// Names of the split points that the model's code marks with pipe_split().
#include <fmt/format.h>

#include <charconv>

#include "base/error.hpp"
#include "graph/cuts/cuts.hpp"

namespace penstock {
namespace {

constexpr std::string_view marker = "pipe_split";

[[noreturn]] void refuse_number(const Graph& graph, const std::string& name,
                                const std::string& place) {
  throw InputError(
      place, fmt::format("the model has no '{}'", name),
      fmt::format("It has {} of them, counted from 0; `penstock show {}` lists where they are.",
                  graph.markers.size(), graph.path));
}

}  // namespace

std::vector<OperatorId> marker_positions(const Graph& graph, const std::string& name,
                                         const std::string& place) {
  const std::string_view text = name;
  if (!text.starts_with(marker)) return {};
  const std::string_view rest = text.substr(marker.size());
  if (!rest.empty() && (rest.size() < 2 || rest.front() != '@')) return {};
  if (graph.markers.empty())
    throw InputError(
        place, fmt::format("'{}': the model calls pipe_split() nowhere", name),
        "Call it in the model's forward where a stage shall begin (docs/models.md) and "
        "export the model again, or name modules, as in layers.3:end.");
  if (rest.empty()) return graph.markers;
  size_t number = 0;
  const auto [end, problem] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), number);
  if (problem != std::errc() || end != rest.data() + rest.size() || number >= graph.markers.size())
    refuse_number(graph, name, place);
  return {graph.markers[number]};
}

}  // namespace penstock
