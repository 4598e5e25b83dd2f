// Names of positions in a plan and in `--split`: module paths, their calls, and operators.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "base/error.hpp"
#include "graph/cuts/cuts.hpp"

namespace penstock {
namespace {

/// First and one past the last operator of a module call.
struct Extent {
  OperatorId begin, end;
};

using Modules = std::map<std::string, Extent>;

void extend(Modules& modules, const std::string& name, OperatorId id) {
  const auto [at, first] = modules.emplace(name, Extent{id, id + 1});
  if (!first) at->second.end = id + 1;
}

/// Every module call, and every container of called modules (`layers` of `layers.0`).
Modules module_calls(const Graph& graph) {
  Modules calls, containers;
  for (OperatorId id = 0; id < static_cast<OperatorId>(graph.operators.size()); ++id)
    for (const std::string& call : graph.operators[id].modules) {
      extend(calls, call, id);
      const std::string path = module_of_call(call);
      for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1))
        extend(containers, path.substr(0, dot), id);
    }
  calls.merge(containers);  // a call hides the container of the same name
  return calls;
}

OperatorId operator_named(const Graph& graph, std::string_view name) {
  for (OperatorId id = 0; id < static_cast<OperatorId>(graph.operators.size()); ++id)
    if (graph.operators[id].name == name) return id;
  return -1;
}

OperatorId first_of_call(const Graph& graph, const std::string& call) {
  OperatorId id = 0;
  while (std::ranges::find(graph.operators[id].modules, call) == graph.operators[id].modules.end())
    ++id;
  return id;
}

/// A module call or a container has this name.
bool is_module(const Graph& graph, const std::string& name) {
  return std::ranges::any_of(graph.operators, [&](const Operator& op) {
    return std::ranges::any_of(op.modules, [&](const std::string& call) {
      return call == name || call.starts_with(name + ".");
    });
  });
}

std::vector<std::string> candidate_names(const Graph& graph, const Modules& modules) {
  std::vector<std::string> names;
  for (const auto& [name, extent] : modules) names.push_back(name);
  for (const Operator& op : graph.operators) names.push_back(op.name);
  return names;
}

[[noreturn]] void refuse_name(const Graph& graph, const Modules& modules, const std::string& name,
                              const std::string& place) {
  std::string cure = did_you_mean(name, candidate_names(graph, modules));
  if (cure.empty()) cure = fmt::format("`penstock show {}` lists the modules.", graph.path);
  throw InputError(place, fmt::format("the model has no module or operator '{}'", name), cure);
}

/// The extents that `path` means: one call if it names one, else all calls.
std::vector<Extent> extents(const Graph& graph, const std::string& path) {
  const Modules modules = module_calls(graph);
  std::vector<Extent> found;
  if (const auto call = modules.find(path); call != modules.end()) found.push_back(call->second);
  if (found.empty())
    if (const OperatorId id = operator_named(graph, path); id >= 0) found.push_back({id, id + 1});
  if (found.empty()) refuse_name(graph, modules, path, "--split");
  for (auto call = modules.lower_bound(path + "@");
       call != modules.end() && call->first.starts_with(path + "@"); ++call)
    found.push_back(call->second);
  return found;
}

}  // namespace

OperatorId begin_position(const Graph& graph, const std::string& begin, const std::string& place) {
  if (begin.empty()) return 0;
  const Modules modules = module_calls(graph);
  if (const auto call = modules.find(begin); call != modules.end()) return call->second.begin;
  const OperatorId id = operator_named(graph, begin.substr(begin.starts_with('%') ? 1 : 0));
  if (id >= 0) return id;
  if (auto marked = marker_positions(graph, begin, place); !marked.empty()) return marked.front();
  refuse_name(graph, modules, begin, place);
}

std::string begin_name(const Graph& graph, OperatorId position) {
  if (position == 0) return "";
  if (position < 0 || position >= static_cast<OperatorId>(graph.operators.size()))
    throw std::logic_error("begin_name: no operator there");
  const Operator& op = graph.operators[position];
  for (const std::string& call : op.modules)  // from the root inwards
    if (first_of_call(graph, call) == position) return call;
  return is_module(graph, op.name) ? "%" + op.name : op.name;
}

std::vector<OperatorId> split_positions(const Graph& graph, const std::string& point) {
  if (auto marked = marker_positions(graph, point, "--split"); !marked.empty()) return marked;
  const size_t colon = point.rfind(':');
  const std::string path = point.substr(0, colon);
  const std::string side = colon == std::string::npos ? "" : point.substr(colon + 1);
  if (path.empty() || (side != "beginning" && side != "end"))
    throw InputError("--split", fmt::format("'{}' is no split point", point),
                     "Write PATH:beginning or PATH:end, as in layers.3:end, or pipe_split.");
  std::vector<OperatorId> positions;
  const auto count = static_cast<OperatorId>(graph.operators.size());
  for (const Extent& extent : extents(graph, path)) {
    const OperatorId position = side == "end" ? extent.end : extent.begin;
    if (position > 0 && position < count) positions.push_back(position);
  }
  std::ranges::sort(positions);
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  if (positions.empty())
    throw InputError("--split", fmt::format("'{}' is the {} of the model", point, side),
                     "Nothing would be left on one side; name another module.");
  return positions;
}

}  // namespace penstock
