#include "graph/sharding/pins.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"

namespace penstock::sharding {
namespace {

Shape shape_at(const Value& value, int64_t batch) {
  Shape shape;
  for (const Expression& size : value.shape) shape.push_back(size.at(batch));
  return shape;
}

[[noreturn]] void refuse(const Pin& pin, const std::string& what, const Shape& shape, int parts) {
  const Layout& layout = pin.layout;
  const int d = layout.dimension();
  if (d >= static_cast<int>(shape.size()))
    throw InputError(pin.named(), fmt::format("{} is [{}] and has no dimension {} to split", what,
                                              fmt::join(shape, ", "), d));
  throw InputError(
      pin.named(),
      fmt::format("dimension {} of {}, [{}], does not divide into {}{} equal parts", d, what,
                  fmt::join(shape, ", "),
                  layout.blocks() > 1 ? fmt::format("{} blocks of ", layout.blocks()) : "", parts),
      "Choose a size that does, another dimension, or fewer ranks in a tensor group.");
}

bool names(const Pin& pin, const StoredTensor& tensor) {
  return std::ranges::any_of(
      tensor.names(), [&](const std::string& name) { return matches_name(pin.pattern, name); });
}

std::string first_reader(const Graph& graph, int tensor) {
  for (const Operator& op : graph.operators)
    for (const ValueId value : op.reads())
      if (graph.values[value].tensor == tensor) return op.name;
  return "nothing";
}

void pin_parameters(const Graph& graph, const Pin& pin, int parts, PinnedLayouts& pinned) {
  std::vector<std::string> known;
  bool found = false;
  for (int i = 0; i < static_cast<int>(graph.tensors.size()); ++i) {
    const StoredTensor& tensor = graph.tensors[i];
    if (tensor.kind != StoredTensor::Kind::parameter) continue;
    known.push_back(tensor.name);
    if (!names(pin, tensor)) continue;
    found = true;
    if (pin.layout.kind() == Layout::Kind::partial)
      throw InputError(pin.named(), "a parameter cannot be held in terms",
                       "Split it, or hold it whole.");
    if (!fits(pin.layout, tensor.sizes, parts))
      refuse(pin, fmt::format("{} (read by {})", tensor.name, first_reader(graph, i)), tensor.sizes,
             parts);
    pinned.tensors.emplace(i, pin.layout);
  }
  if (!found)
    throw InputError(pin.named(), fmt::format("no parameter of {} has this name", graph.path),
                     did_you_mean(pin.pattern, known));
}

/// The outermost module that the pin names and the operator is in; a further call of a module has
/// `@` and a number behind its name.
const std::string* named_call(const Pin& pin, const Operator& op) {
  for (const std::string& call : op.modules)
    if (matches_text(pin.pattern, module_of_call(call))) return &call;
  return nullptr;
}

/// The values of each such call that are read outside.
std::set<ValueId> returned(const Graph& graph, const Pin& pin) {
  std::vector<const std::string*> made_in(graph.values.size(), nullptr);
  for (const Operator& op : graph.operators)
    for (const ValueId value : op.outputs)
      if (value >= 0) made_in[value] = named_call(pin, op);
  std::set<ValueId> values;
  for (const Operator& op : graph.operators) {
    const std::string* reader = named_call(pin, op);
    for (const ValueId value : op.reads())
      if (made_in[value] && !(reader && *reader == *made_in[value])) values.insert(value);
  }
  for (const Output& output : graph.outputs)
    if (const auto* tensor = std::get_if<TensorRef>(&output.value))
      if (made_in[tensor->value]) values.insert(tensor->value);
  std::erase_if(values, [&](ValueId value) { return !is_floating(graph.values[value].dtype); });
  return values;
}

/// The results of operators of that name.
std::set<ValueId> made_by(const Graph& graph, const Pin& pin) {
  std::set<ValueId> values;
  for (const Operator& op : graph.operators)
    if (matches_text(pin.pattern, op.name))
      for (const ValueId value : op.outputs)
        if (value >= 0 && is_floating(graph.values[value].dtype)) values.insert(value);
  return values;
}

void pin_values(const Graph& graph, const Pin& pin, int64_t batch, int parts,
                PinnedLayouts& pinned) {
  std::set<ValueId> values = returned(graph, pin);
  if (values.empty()) values = made_by(graph, pin);
  if (values.empty()) {
    std::vector<std::string> known;
    for (const Operator& op : graph.operators) {
      known.insert(known.end(), op.modules.begin(), op.modules.end());
      known.push_back(op.name);
    }
    throw InputError(
        pin.named(),
        fmt::format("no module or operator of {} that has this name returns a value", graph.path),
        did_you_mean(pin.pattern, known));
  }
  for (const ValueId value : values) {
    const Value& pinned_value = graph.values[value];
    const Shape shape = shape_at(pinned_value, batch);
    if (!fits(pin.layout, shape, parts))
      refuse(pin, fmt::format("the result of {}", graph.operators[pinned_value.producer].name),
             shape, parts);
    pinned.values.emplace(value, pin.layout);
  }
}

}  // namespace

PinnedLayouts resolve(const Graph& graph, const Pins& pins, int64_t batch, int parts) {
  PinnedLayouts pinned;
  for (const Pin& pin : pins.parameters) pin_parameters(graph, pin, parts, pinned);
  for (const Pin& pin : pins.values) pin_values(graph, pin, batch, parts, pinned);
  return pinned;
}

}  // namespace penstock::sharding
