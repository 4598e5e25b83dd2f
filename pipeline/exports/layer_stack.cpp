#include "pipeline/exports/layer_stack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <map>
#include <set>

#include "base/error.hpp"

namespace penstock {

namespace {

/// `layers` of `layers.3`, which may be any call of it; "" of other modules.
std::string list_of(const std::string& call) {
  const std::string path = module_of_call(call);
  const size_t dot = path.rfind('.');
  const bool numbered =
      dot != path.npos && path.find_first_not_of("0123456789", dot + 1) == path.npos;
  return numbered ? path.substr(0, dot) : "";
}

const Operator& operator_at(const ExportSource& source, const CutPoint& point) {
  return source.model.operators[static_cast<size_t>(point.op)];
}

/// The lists of at least two modules, and how deep each lies.
std::map<std::string, long> lists(const ExportSource& source, const ModuleCuts& cuts) {
  std::map<std::string, std::set<std::string>> members;
  for (const CutPoint& point : cuts.points) {
    for (const std::string& call : operator_at(source, point).modules) {
      if (const std::string list = list_of(call); !list.empty()) {
        members[list].insert(module_of_call(call));
      }
    }
  }
  std::map<std::string, long> depths;
  for (const auto& [list, calls] : members) {
    if (calls.size() > 1) depths[list] = std::ranges::count(list, '.');
  }
  return depths;
}

std::string outermost_list(const ExportSource& source, const ModuleCuts& cuts,
                           std::string_view tool) {
  const std::map<std::string, long> depths = lists(source, cuts);
  long least = LONG_MAX;
  for (const auto& [list, depth] : depths) least = std::min(least, depth);
  std::vector<std::string> outermost;
  for (const auto& [list, depth] : depths) {
    if (depth == least) outermost.push_back(fmt::format("`{}`", list));
  }
  if (outermost.size() == 1) return outermost[0].substr(1, outermost[0].size() - 2);
  throw InputError(source.model.path,
                   outermost.empty()
                       ? fmt::format("{} counts the layers of a model, `layers.0`, `layers.1`, …, "
                                     "and this one has no such list",
                                     tool)
                       : fmt::format("{} knows one stack of layers, and this model has {}", tool,
                                     fmt::join(outermost, ", ")),
                   "torch-split and deepspeed export models of any modules.");
}

/// The call of a module of `list` that the operator runs in; "" if none.
std::string layer_of(const Operator& op, const std::string& list) {
  for (const std::string& call : op.modules) {
    if (list_of(call) == list) return call;
  }
  return "";
}

[[noreturn]] void refuse_order(const ExportSource& source, const std::string& layer,
                               std::string_view tool) {
  throw InputError(source.model.path,
                   fmt::format("{} runs layers one after the other, each once, and `{}` runs again "
                               "after another",
                               tool, module_of_call(layer)),
                   "torch-csv exports the schedule of any model.");
}

void require_both_ends(const ExportSource& source, const ModuleCuts& cuts, const LayerStack& stack,
                       const std::string& list, std::string_view tool) {
  const bool embedding = stack.begins.front() > 0, output = stack.end < cuts.points.size();
  if (embedding && output) return;
  throw InputError(source.model.path,
                   fmt::format("{} has an embedding before the layers and an output after them, "
                               "and nothing runs {} `{}`",
                               tool, embedding ? "after" : "before", list),
                   "torch-split and deepspeed export models of any modules.");
}

}  // namespace

LayerStack layer_stack(const ExportSource& source, const ModuleCuts& cuts, std::string_view tool) {
  const std::string list = outermost_list(source, cuts, tool);
  LayerStack stack;
  std::set<std::string> done;
  std::string current;
  for (size_t i = 0; i < cuts.points.size(); ++i) {
    const std::string layer = layer_of(operator_at(source, cuts.points[i]), list);
    if (layer.empty()) continue;
    stack.end = i + 1;
    if (layer == current) continue;
    if (!done.insert(module_of_call(layer)).second) refuse_order(source, layer, tool);
    stack.begins.push_back(i);
    current = layer;
  }
  require_both_ends(source, cuts, stack, list, tool);
  return stack;
}

}  // namespace penstock
