#include "graph/analysis/id_range.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "graph/operators/facts.hpp"

namespace penstock {
namespace {

bool reads_as(const Operator& op, const std::string& name, ValueId value) {
  const ArgumentValue* given = argument(op, name);
  const auto* tensor = given ? std::get_if<TensorRef>(given) : nullptr;
  return tensor && tensor->value == value;
}

/// The size of a dimension of a tensor that the operator reads; nothing where it has no such.
std::optional<int64_t> size_of(const Graph& graph, const Operator& op, const std::string& name,
                               size_t dimension) {
  const ArgumentValue* given = argument(op, name);
  const auto* tensor = given ? std::get_if<TensorRef>(given) : nullptr;
  if (!tensor || dimension >= graph.values[tensor->value].shape.size()) return std::nullopt;
  return graph.values[tensor->value].shape[dimension].at(1);
}

/// Its results are elements of what it reads, unchanged, and constants.
bool moves(const Operator& op) {
  static const std::set<std::string> moving{
      "aten::to",         "aten::_to_copy", "aten::type_as", "aten::clone",
      "aten::contiguous", "aten::detach",   "aten::cat",     "aten::constant_pad_nd",
      "aten::pad",        "aten::roll",     "aten::flip",    "aten::repeat"};
  return is_view(op) || moving.contains(op.target);
}

/// The range that this operator gives to the value as its ids.
std::optional<IdRange> range_of(const Graph& graph, const Operator& op, ValueId value) {
  const bool embeds = op.target == "aten::embedding" || op.target == "aten::embedding_bag";
  if (embeds && reads_as(op, "indices", value)) {
    const std::optional<int64_t> rows = size_of(graph, op, "weight", 0);
    return rows ? std::optional(IdRange{*rows, std::nullopt}) : std::nullopt;
  }
  if (!counts_targets(op) || !reads_as(op, "target", value)) return std::nullopt;
  std::optional<int64_t> classes = size_of(graph, op, "self", 1);
  if (!classes) classes = size_of(graph, op, "self", 0);  // a single sample
  if (!classes) return std::nullopt;
  return IdRange{*classes, static_cast<int64_t>(number(op, "ignore_index", -100))};
}

/// What both allow.
IdRange narrowed(const IdRange& one, const IdRange& other) {
  return {std::min(one.limit, other.limit),
          one.ignored == other.ignored ? one.ignored : std::nullopt};
}

}  // namespace

std::optional<IdRange> id_range(const Graph& graph, ValueId input) {
  const std::vector<std::vector<OperatorId>> consumers = graph.consumers();
  std::optional<IdRange> range;
  std::set<ValueId> seen{input};
  for (std::vector<ValueId> open{input}; !open.empty();) {
    const ValueId value = open.back();
    open.pop_back();
    for (const OperatorId id : consumers[value]) {
      const Operator& op = graph.operators[id];
      if (const std::optional<IdRange> own = range_of(graph, op, value))
        range = range ? narrowed(*range, *own) : *own;
      if (!moves(op)) continue;
      for (const ValueId output : op.outputs)
        if (output >= 0 && seen.insert(output).second) open.push_back(output);
    }
  }
  return range;
}

}  // namespace penstock
