#include "tests/graph/sharding/random_graph.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "graph/sharding/signatures.hpp"
#include "tests/graph/build_graph.hpp"
#include "tests/graph/sharding/held.hpp"

namespace penstock::sharding::testing {
namespace {

using penstock::testing::GraphBuilder;

std::vector<Expression> expressions(const Shape& shape) { return {shape.begin(), shape.end()}; }

Shape shape_of(const Graph& graph, ValueId value) {
  Shape sizes;
  for (const Expression& size : graph.values[value].shape) sizes.push_back(size.at(1));
  return sizes;
}

class Writer {
 public:
  Writer(std::mt19937& random, int parts) : random_(random), parts_(parts) {}

  RandomGraph write() {
    values_.push_back(builder_.input("x", expressions({size(), size(), size()})));
    const size_t count = 3 + draw(3);
    while (builder_.graph.operators.size() < count) {
      const ValueId operand = draw(3) == 0 ? pick(values_) : values_.back();
      const Shape shape = shape_of(builder_.graph, operand);
      if (const auto made = next(operand, shape)) values_.push_back(*made);
    }
    builder_.output(values_.back());
    if (draw(4) == 0) builder_.output(pick(values_), "another");
    Pins drawn = pins();
    const int64_t microbatches = 1 + 7 * draw(2);
    drawn.costs = {.state_byte = price(), .saved_byte = price()};
    return {std::move(builder_.graph), drawn, 1, microbatches};
  }

 private:
  int draw(size_t below) { return static_cast<int>(random_() % below); }
  template <typename T>
  T pick(const std::vector<T>& among) {
    return among[draw(among.size())];
  }
  /// From nothing to so much that memory alone decides.
  int64_t price() { return pick(std::vector<int64_t>{0, 30, 1000, 30'000, 300'000}); }
  int64_t size() { return parts_ * pick(std::vector<int64_t>{1, 2, 499, 997}); }

  ValueId op(const std::string& name, const std::vector<ValueId>& operands, const Shape& result,
             const std::vector<std::string>& names, std::vector<Argument> further = {}) {
    return ops(name, operands, {result}, names, std::move(further)).front();
  }
  std::vector<ValueId> ops(const std::string& name, const std::vector<ValueId>& operands,
                           const std::vector<Shape>& results, const std::vector<std::string>& names,
                           std::vector<Argument> further) {
    std::vector<penstock::testing::Shape> shapes;
    for (const Shape& result : results) shapes.push_back(expressions(result));
    const auto made = builder_.ops("aten::" + name, operands, shapes,
                                   {fmt::format("m{}", builder_.graph.operators.size())});
    builder_.named(names, std::move(further));
    return made;
  }

  /// A new parameter, or one of that shape that is there: tied.
  ValueId parameter(const Shape& shape) {
    for (const ValueId value : parameters_)
      if (shape_of(builder_.graph, value) == shape && draw(2) == 0) return value;
    const std::string name = fmt::format("w{}", parameters_.size());
    parameters_.push_back(draw(6) == 0 ? builder_.frozen(name, shape)
                                       : builder_.parameter(name, shape));
    return parameters_.back();
  }

  /// A value of that shape, or a parameter.
  ValueId alike(const Shape& shape) {
    std::vector<ValueId> found{parameter(shape)};
    for (const ValueId value : values_)
      if (shape_of(builder_.graph, value) == shape) found.push_back(value);
    return pick(found);
  }

  std::optional<ValueId> next(ValueId x, const Shape& shape) {
    switch (draw(14)) {
      case 0: return op("gelu", {x}, shape, {"self"});
      case 1: return op("add", {x, parameter({shape.back()})}, shape, {"self", "other"});
      case 2: return op("add", {x, alike(shape)}, shape, {"self", "other"});
      case 3: return op("mul", {x, alike(shape)}, shape, {"self", "other"});
      case 4: return op("cumsum", {x}, shape, {"self"}, {{"dim", int64_t{0}}});
      case 5: return op("softmax", {x}, shape, {"self"}, {{"dim", int64_t{-1}}});
      case 6: return norm(x, shape);
      case 7: return transposed(x, shape);
      case 8: return merged(x, shape);
      case 9: return cut(x, shape);
      case 10: return joined(x, shape);
      case 11: return by_derived_weight(x, shape);
      default: return linear(x, shape);
    }
  }

  ValueId linear(ValueId x, Shape shape) {
    const int64_t in = shape.back(), out = shape.back() = size();
    std::vector<ValueId> operands{x, parameter({out, in})};
    std::vector<std::string> names{"input", "weight"};
    if (draw(2) == 0) {
      operands.push_back(parameter({out}));
      names.push_back("bias");
    }
    return op("linear", operands, shape, names);
  }
  ValueId by_derived_weight(ValueId x, Shape shape) {
    const int64_t in = shape.back(), out = shape.back() = size();
    const ValueId turned = op("t", {parameter({out, in})}, {in, out}, {"self"});
    return op("matmul", {x, turned}, shape, {"self", "other"});
  }
  ValueId norm(ValueId x, const Shape& shape) {
    return op("layer_norm", {x, parameter({shape.back()})}, shape, {"input", "weight"},
              {{"normalized_shape", expressions({shape.back()})}});
  }
  std::optional<ValueId> transposed(ValueId x, Shape shape) {
    if (shape.size() < 2) return std::nullopt;
    std::swap(shape[0], shape[1]);
    return op("transpose", {x}, shape, {"self"}, {{"dim0", int64_t{0}}, {"dim1", int64_t{1}}});
  }
  std::optional<ValueId> merged(ValueId x, const Shape& shape) {
    if (shape.size() < 3 || shape[0] * shape[1] > 2000 * parts_) return std::nullopt;
    const Shape fewer{shape[0] * shape[1], shape[2]};
    return op("view", {x}, fewer, {"self"}, {{"size", expressions(fewer)}});
  }
  /// The first half of the last dimension.
  std::optional<ValueId> cut(ValueId x, Shape shape) {
    if (shape.back() % 4 != 0) return std::nullopt;
    shape.back() /= 2;
    return ops("split", {x}, {shape, shape}, {"self"},
               {{"split_size", shape.back()}, {"dim", int64_t{-1}}})[draw(2)];
  }
  std::optional<ValueId> joined(ValueId x, Shape shape) {
    if (shape.back() > 4 * parts_) return std::nullopt;
    const ValueId other = alike(shape);
    shape.back() *= 2;
    const ValueId made = op("cat", {}, shape, {}, {{"tensors", TensorList{{x, other}}}});
    builder_.named({}, {{"dim", int64_t{-1}}});
    return made;
  }

  Layout layout(const Shape& shape) {
    std::vector<Layout> possible = splits(shape, parts_);
    possible.push_back(Layout::replicated());
    possible.push_back(Layout::identical());
    return pick(possible);
  }
  bool is_read(ValueId value) const {
    const Graph& graph = builder_.graph;
    return !graph.consumers()[value].empty() ||
           std::ranges::any_of(graph.outputs, [&](const Output& output) {
             return std::get<TensorRef>(output.value).value == value;
           });
  }
  Pins pins() {
    Pins pins;
    const Graph& graph = builder_.graph;
    for (const ValueId value : parameters_)
      if (draw(5) == 0)
        pins.parameters.push_back({graph.values[value].name, layout(shape_of(graph, value))});
    for (const Operator& op : graph.operators)
      if (draw(10) == 0 && is_read(op.outputs.front()))
        pins.values.push_back({op.modules.front(), layout(shape_of(graph, op.outputs.front()))});
    return pins;
  }

  std::mt19937& random_;
  const int parts_;
  GraphBuilder builder_;
  std::vector<ValueId> values_, parameters_;
};

}  // namespace

std::string RandomGraph::text() const {
  std::string text = fmt::format("{} microbatches, a byte of state costs {}, a saved one {}\n",
                                 microbatches, pins.costs.state_byte, pins.costs.saved_byte);
  for (const Operator& op : graph.operators) {
    text += op.name + " = " + op.target;
    for (const ValueId value : tensor_arguments(op))
      text += fmt::format(" {} [{}]", graph.values[value].name,
                          fmt::join(shape_of(graph, value), ", "));
    text += "\n";
  }
  for (const StoredTensor& tensor : graph.tensors)
    if (!tensor.requires_grad) text += tensor.name + " is frozen\n";
  for (const Pin& pin : pins.parameters) text += pin.pattern + " in " + pin.layout.str() + "\n";
  for (const Pin& pin : pins.values) text += pin.pattern + " gives " + pin.layout.str() + "\n";
  return text;
}

RandomGraph random_graph(std::mt19937& random, int parts) { return Writer(random, parts).write(); }

}  // namespace penstock::sharding::testing
