// Builds small graphs by hand, in a few lines:
//
//     GraphBuilder b;
//     auto x = b.input("x", {batch, 4});
//     auto w = b.parameter("w", {4, 4});
//     auto y = b.op("aten::linear", {x, w}, {batch, 4}, {"first"});
//     b.output(y);
//
// Values are float32 unless told otherwise. Arguments are named a0, a1, … or by `named`.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.hpp"

namespace penstock::testing {

inline const Expression batch = Expression::batch();
using Shape = std::vector<Expression>;

class GraphBuilder {
 public:
  ValueId input(const std::string& name, Shape shape, DType dtype = DType::float32) {
    const ValueId id = value(name, Value::Kind::user_input, std::move(shape), dtype);
    graph.inputs.push_back(id);
    graph.dynamic_batch = true;
    return id;
  }
  ValueId parameter(const std::string& name, std::vector<int64_t> sizes) {
    return tensor(name, StoredTensor::Kind::parameter, std::move(sizes), true);
  }
  ValueId frozen(const std::string& name, std::vector<int64_t> sizes) {
    return tensor(name, StoredTensor::Kind::parameter, std::move(sizes), false);
  }
  ValueId buffer(const std::string& name, std::vector<int64_t> sizes) {
    return tensor(name, StoredTensor::Kind::buffer, std::move(sizes), false);
  }

  /// One output; named after the target (`linear`, `linear_1`).
  ValueId op(const std::string& target, std::vector<ValueId> reads, Shape shape,
             std::vector<std::string> modules = {}) {
    return ops(target, std::move(reads), {std::move(shape)}, std::move(modules)).front();
  }
  /// Several outputs.
  std::vector<ValueId> ops(const std::string& target, std::vector<ValueId> reads,
                           std::vector<Shape> shapes, std::vector<std::string> modules = {}) {
    Operator added;
    added.target = target;
    added.modules = std::move(modules);
    for (size_t i = 0; i < reads.size(); ++i)
      added.arguments.push_back({fmt::format("a{}", i), TensorRef{reads[i]}});
    for (Shape& shape : shapes) {
      const ValueId id = value(unique(target.substr(target.find("::") + 2)),
                               Value::Kind::intermediate, std::move(shape), DType::float32);
      graph.values[id].producer = static_cast<OperatorId>(graph.operators.size());
      added.outputs.push_back(id);
    }
    added.name = added.outputs.empty() ? unique(target) : graph.values[added.outputs.front()].name;
    graph.operators.push_back(added);
    return added.outputs;
  }
  /// Names the arguments of the last operator, and may add further ones.
  GraphBuilder& named(std::vector<std::string> names, std::vector<Argument> further = {}) {
    Operator& last = graph.operators.back();
    for (size_t i = 0; i < names.size(); ++i) last.arguments.at(i).name = names[i];
    for (Argument& argument : further) last.arguments.push_back(std::move(argument));
    return *this;
  }
  void output(ValueId id, const std::string& name = "output") {
    graph.outputs.push_back({name, TensorRef{id}});
  }
  void update(ValueId buffer, ValueId id) {
    graph.updates.push_back({graph.values[buffer].tensor, id});
  }

  Graph graph;

 private:
  ValueId value(const std::string& name, Value::Kind kind, Shape shape, DType dtype) {
    Value added;
    added.name = name;
    added.kind = kind;
    added.dtype = dtype;
    added.shape = std::move(shape);
    graph.values.push_back(std::move(added));
    return static_cast<ValueId>(graph.values.size()) - 1;
  }
  ValueId tensor(const std::string& name, StoredTensor::Kind kind, std::vector<int64_t> sizes,
                 bool trainable) {
    const ValueId id =
        value(name, Value::Kind::tensor, {sizes.begin(), sizes.end()}, DType::float32);
    graph.values[id].tensor = static_cast<int>(graph.tensors.size());
    StoredTensor added;
    added.kind = kind;
    added.name = name;
    added.requires_grad = trainable;
    added.sizes = std::move(sizes);
    graph.tensors.push_back(std::move(added));
    return id;
  }
  std::string unique(const std::string& name) {
    const int uses = uses_[name]++;
    return uses == 0 ? name : fmt::format("{}_{}", name, uses);
  }
  std::map<std::string, int> uses_;
};

}  // namespace penstock::testing
