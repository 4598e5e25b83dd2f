// Nested graphs: regions without gradient and with autocast. They have names of their own, are
// bound by position and return a tuple; their operators take the place of the node that calls them.
#include <fmt/format.h>

#include "graph/pt2/reader.hpp"

namespace penstock::pt2 {
namespace {

constexpr std::string_view higher_order = "torch.ops.higher_order.";
constexpr int max_nested_graphs = 64;

/// The position of the nested graph among the node's arguments; the operands follow it.
size_t graph_position(ModelReader& reader, const Json& inputs, const std::string& target) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].at("arg").contains("as_graph")) return i;
  reader.refuse(fmt::format("operator {} has no nested graph", target));
}

/// An autocast region as the exporter writes it: device, type, whether it is enabled.
std::optional<Autocast> autocast_inside(ModelReader& reader, const Json& inputs) {
  const auto value = [&](size_t i, const char* tag) { return inputs.at(i).at("arg").at(tag); };
  if (!value(2, "as_bool").get<bool>()) return std::nullopt;
  Autocast region{value(0, "as_string").get<std::string>(), std::nullopt};
  if (!inputs.at(1).at("arg").contains("as_scalar_type")) return region;
  const auto dtype = static_cast<DType>(small(value(1, "as_scalar_type")));
  if (dtype != DType::bfloat16 && dtype != DType::float16)
    reader.refuse("a region of autocast casts to neither bfloat16 nor float16",
                  "Export the model with tools/export_model.py, which turns autocast into casts.");
  region.dtype = dtype;
  return region;
}

/// The region inside: with gradients or without, with autocast or without.
void enter(ModelReader& reader, const Json& inputs, const std::string& kind, Scope& inner) {
  if (kind == "wrap_with_set_grad_enabled")
    inner.grad_enabled = inputs.at(0).at("arg").at("as_bool").get<bool>();
  else if (kind == "wrap_with_autocast")
    inner.autocast = autocast_inside(reader, inputs);
  else
    reader.refuse(fmt::format("operator {} cannot be run piece by piece", kind),
                  "Write the model without torch.cond, while_loop, map, scan and the like.");
}

/// A nested graph may call sizes and tensors by other names than the outer one.
void bind(ModelReader& reader, Scope& outer, Scope& inner, const Json& inputs, size_t first) {
  const Json& formal = inner.graph.at("inputs");
  if (formal.size() != inputs.size() - first)
    reader.refuse(fmt::format("a nested graph with {} inputs is given {}", formal.size(),
                              inputs.size() - first));
  for (size_t i = 0; i < formal.size(); ++i) {
    const auto [tag, name] = member(formal[i]);
    const ArgumentValue value = read_argument(reader, outer, inputs[first + i].at("arg"));
    if (const auto* tensor = std::get_if<TensorRef>(&value); tensor && tag == "as_tensor")
      inner.tensors[name->at("name").get<std::string>()] = tensor->value;
    else if (tag == "as_sym_int" || tag == "as_sym_float")
      inner.sizes.emplace(name->at("as_name").get<std::string>(),
                          read_size_argument(reader, outer, inputs[first + i].at("arg")));
    else if (tag == "as_tensor")
      reader.refuse("a nested graph is given something else than a tensor");
  }
}

/// The outer names of what the nested graph returns, flattened.
std::vector<std::pair<std::string, const Json*>> results(const Json& outputs) {
  std::vector<std::pair<std::string, const Json*>> list;
  for (const Json& output : outputs) {
    const auto [tag, value] = member(output);
    if (tag != "as_tensors") {
      list.emplace_back(tag, value);
      continue;
    }
    for (const Json& named : *value) list.emplace_back("as_tensor", &named);
  }
  return list;
}

void return_values(ModelReader& reader, Scope& outer, Scope& inner, const Json& node) {
  const auto outside = results(node.at("outputs"));
  const Json& inside = inner.graph.at("outputs");
  if (outside.size() != inside.size())
    reader.refuse(fmt::format("a nested graph returns {} values instead of {}", inside.size(),
                              outside.size()));
  for (size_t i = 0; i < outside.size(); ++i) {
    const auto& [tag, named] = outside[i];
    if (tag == "as_tensor") {
      const ArgumentValue value = read_argument(reader, inner, inside[i]);
      if (const auto* tensor = std::get_if<TensorRef>(&value))
        outer.tensors[named->at("name").get<std::string>()] = tensor->value;
    } else if (tag == "as_sym_int" || tag == "as_sym_float") {
      outer.sizes.emplace(named->at("as_name").get<std::string>(),
                          read_size_argument(reader, inner, inside[i]));
    }
  }
}

}  // namespace

bool take_nested_graph(ModelReader& reader, Scope& scope, const Json& node) {
  const auto& target = node.at("target").get_ref<const std::string&>();
  if (!target.starts_with(higher_order)) return false;
  const std::string kind = target.substr(higher_order.size());
  const Json& inputs = node.at("inputs");
  Scope around{scope.graph, {}, {}, scope.grad_enabled, scope.depth + 1, scope.autocast};
  enter(reader, inputs, kind, around);
  const size_t position = graph_position(reader, inputs, target);
  const Json& graph = inputs[position].at("arg").at("as_graph").at("graph");
  Scope inner{graph, {}, {}, around.grad_enabled, around.depth, around.autocast};
  if (inner.depth > max_nested_graphs) reader.refuse("graphs are nested too deeply");
  bind(reader, scope, inner, inputs, position + 1);
  read_nodes(reader, inner);
  return_values(reader, scope, inner, node);
  return true;
}

}  // namespace penstock::pt2
