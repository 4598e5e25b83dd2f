// The nodes of a graph, in their order: operators with their arguments, values and modules.
// Operators that compute sizes or only assert leave no trace.
#include <fmt/format.h>

#include <algorithm>

#include "graph/operators/facts.hpp"
#include "graph/pt2/reader.hpp"

namespace penstock::pt2 {
namespace {

/// `torch.ops.aten.add.Tensor` is `aten::add` with overload `Tensor`.
void split_target(ModelReader& reader, const std::string& target, Operator& op) {
  constexpr std::string_view prefix = "torch.ops.";
  const size_t space = target.find('.', prefix.size());
  const size_t overload = target.rfind('.');
  if (!target.starts_with(prefix) || space == std::string::npos || overload <= space)
    reader.refuse(fmt::format("operator {} is none of torch.ops", target),
                  "Penstock takes operators of PyTorch's dispatcher.");
  op.target = target.substr(prefix.size(), space - prefix.size()) +
              "::" + target.substr(space + 1, overload - space - 1);
  op.overload = target.substr(overload + 1);
  if (op.overload == "default") op.overload.clear();
}

/// One entry of the stack is `key,path,type`; the key of a repeated call ends in `@1`.
std::string module_call(std::string_view entry) {
  const size_t comma = entry.find(',');
  if (comma == std::string_view::npos) return "";
  const std::string key(entry.substr(0, comma));
  const std::string_view rest = entry.substr(comma + 1);
  const std::string path(rest.substr(0, rest.find(',')));
  if (path.empty() || path.starts_with("_empty_nn_module_stack")) return "";
  return path + key.substr(module_of_call(key).size());
}

std::vector<std::string> module_calls(const Json& node) {
  std::vector<std::string> calls;
  const auto metadata = node.find("metadata");
  if (metadata == node.end() || !metadata->contains("nn_module_stack")) return calls;
  std::string_view stack = metadata->at("nn_module_stack").get_ref<const std::string&>();
  while (!stack.empty()) {
    const size_t end = std::min(stack.find(';'), stack.size());
    if (std::string call = module_call(stack.substr(0, end)); !call.empty())
      calls.push_back(std::move(call));
    stack.remove_prefix(std::min(end + 1, stack.size()));
  }
  return calls;
}

void add_output(ModelReader& reader, Scope& scope, const Json& named, Operator& op) {
  const auto name = named.at("name").get<std::string>();
  const ValueId value = add_value(reader, scope, name, Value::Kind::intermediate);
  if (value >= 0)
    reader.graph.values[value].producer = static_cast<OperatorId>(reader.graph.operators.size());
  op.outputs.push_back(value);
}

void add_outputs(ModelReader& reader, Scope& scope, const Json& node, Operator& op) {
  for (const Json& output : node.at("outputs")) {
    const auto [tag, value] = member(output);
    if (tag == "as_tensor") {
      add_output(reader, scope, *value, op);
    } else if (tag == "as_tensors") {
      op.returns_list = true;
      for (const Json& named : *value) add_output(reader, scope, named, op);
    } else {
      op.outputs.push_back(-1);
    }
  }
}

/// The schema's number of an argument given by name; files of older versions may lack the kind.
constexpr int64_t keyword_argument = 2;

Argument named_argument(ModelReader& reader, Scope& scope, const Json& input) {
  return {input.at("name").get<std::string>(), read_argument(reader, scope, input.at("arg")),
          input.value("kind", Json()) == keyword_argument};
}

/// LibTorch has PyTorch's own operators alone.
void refuse_custom(ModelReader& reader, const Operator& op, const Json& node) {
  for (const char* own : {"aten::", "prims::"})
    if (op.target.starts_with(own)) return;
  reader.refuse(fmt::format("operator {} ({}) is a custom operator, which LibTorch does not have",
                            full_name(op), node_name(node)),
                "Export the model with tools/export_model.py --decompose, which replaces it by the "
                "torch operators that it consists of.");
}

/// Takes the node's arguments in evaluation mode for the operator.
void note_evaluation(ModelReader& reader, const std::string& node, const std::string& op) {
  auto found = reader.evaluated.extract(node);
  if (found.empty()) return;
  for (Argument& argument : found.mapped())
    reader.graph.evaluation->changes.push_back({op, std::move(argument)});
}

void read_operator(ModelReader& reader, Scope& scope, const Json& node) {
  Operator op;
  split_target(reader, node.at("target").get<std::string>(), op);
  if (is_assertion(op)) return;
  refuse_custom(reader, op, node);
  op.grad_enabled = scope.grad_enabled;
  op.autocast = scope.autocast;
  for (const Json& input : node.at("inputs"))
    op.arguments.push_back(named_argument(reader, scope, input));
  add_outputs(reader, scope, node, op);
  op.modules = module_calls(node);
  op.name = reader.unique_operator(node_name(node));
  if (scope.depth == 0) note_evaluation(reader, node_name(node), op.name);
  reader.graph.operators.push_back(std::move(op));
}

/// torch.distributed.pipelining keeps its pipe_split() in the graph; tools/export_model.py takes it
/// out, so that torch reads the file without that module, and names the node that follows.
constexpr std::string_view marker = "torch.ops.pippy._pipe_split.default";

/// Notes a split point before the node; true if the node is nothing else.
bool take_marker(ModelReader& reader, const Scope& scope, const Json& node) {
  const bool is_marker = node.at("target").get_ref<const std::string&>() == marker;
  const bool named =
      scope.depth == 0 && !reader.marked.empty() && reader.marked.contains(node_name(node));
  const auto next = static_cast<OperatorId>(reader.graph.operators.size());
  auto& markers = reader.graph.markers;
  if ((is_marker || named) && (markers.empty() || markers.back() != next)) markers.push_back(next);
  return is_marker;
}

Expression read_dimension(ModelReader& reader, const std::string& name, const Json& of) {
  Expression size = read_size(reader, of);
  if (!size.is_integer() || size.at(reader.graph.example_batch) < 0)
    reader.refuse(fmt::format("value '{}' has a dimension of {}", name, size.str()));
  return size;
}

}  // namespace

ValueId add_value(ModelReader& reader, Scope& scope, const std::string& name, Value::Kind kind) {
  const Json& table = scope.graph.at("tensor_values");
  const auto meta = table.find(name);
  if (meta == table.end()) return -1;
  Value value;
  value.kind = kind;
  value.dtype = static_cast<DType>(small(meta->at("dtype")));
  if (size_bytes(value.dtype) == 0)
    reader.refuse(fmt::format("value '{}' has an element type that Penstock does not know", name));
  if (small(meta->at("layout")) != 7)
    reader.refuse(fmt::format("value '{}' is sparse", name), "Penstock takes dense tensors.");
  for (const Json& size : meta->at("sizes"))
    value.shape.push_back(read_dimension(reader, name, size));
  value.name = reader.unique_value(name);
  const auto id = static_cast<ValueId>(reader.graph.values.size());
  if (!scope.tensors.emplace(name, id).second)
    reader.refuse(fmt::format("the value '{}' is computed twice", name));
  reader.graph.values.push_back(std::move(value));
  return id;
}

void read_nodes(ModelReader& reader, Scope& scope) {
  for (const Json& node : scope.graph.at("nodes")) {
    reader.node = &node;
    if (take_marker(reader, scope, node)) continue;
    if (!take_size_operator(reader, scope, node) && !take_nested_graph(reader, scope, node))
      read_operator(reader, scope, node);
  }
  reader.node = nullptr;
}

}  // namespace penstock::pt2
