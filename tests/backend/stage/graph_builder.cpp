#include "tests/backend/stage/graph_builder.hpp"

#include <functional>

#include "backend/operators/dtype.hpp"

namespace penstock::test {

ValueId GraphBuilder::input(const std::string& name, DType dtype, std::vector<Expression> shape) {
  const auto id = static_cast<ValueId>(graph.values.size());
  graph.values.push_back(
      {.name = name, .kind = Value::Kind::user_input, .dtype = dtype, .shape = std::move(shape)});
  graph.inputs.push_back(id);
  return id;
}

ValueId GraphBuilder::stored(StoredTensor::Kind kind, const std::string& name,
                             const at::Tensor& tensor) {
  const auto id = static_cast<ValueId>(graph.values.size());
  const auto index = static_cast<int>(graph.tensors.size());
  const std::vector<int64_t> sizes = tensor.sizes().vec();
  graph.tensors.push_back({.kind = kind,
                           .name = name,
                           .requires_grad = kind == StoredTensor::Kind::parameter,
                           .dtype = dtype_of(tensor.scalar_type()),
                           .sizes = sizes,
                           .strides = tensor.strides().vec()});
  graph.values.push_back({.name = name,
                          .kind = Value::Kind::tensor,
                          .dtype = dtype_of(tensor.scalar_type()),
                          .shape = {sizes.begin(), sizes.end()},
                          .tensor = index});
  tensors[index] = tensor;
  return id;
}

ValueId GraphBuilder::parameter(const std::string& name, const at::Tensor& tensor) {
  return stored(StoredTensor::Kind::parameter, name, tensor);
}

ValueId GraphBuilder::buffer(const std::string& name, const at::Tensor& tensor) {
  return stored(StoredTensor::Kind::buffer, name, tensor);
}

std::vector<ValueId> GraphBuilder::op(const std::string& target, const Arguments& arguments,
                                      size_t outputs, DType dtype) {
  const size_t dot = target.find('.');
  const auto id = static_cast<OperatorId>(graph.operators.size());
  Operator op{.name = target.substr(6) + "_" + std::to_string(id),
              .target = target.substr(0, dot),
              .overload = dot == std::string::npos ? "" : target.substr(dot + 1),
              .modules = {"layer" + std::to_string(id)}};
  for (const auto& [name, value] : arguments) op.arguments.push_back({name, value});
  for (size_t k = 0; k < outputs; ++k) {
    op.outputs.push_back(static_cast<ValueId>(graph.values.size()));
    graph.values.push_back(
        {.name = op.name + "_" + std::to_string(k), .dtype = dtype, .producer = id});
  }
  graph.operators.push_back(op);
  return op.outputs;
}

void GraphBuilder::update(ValueId buffer, ValueId value) {
  graph.updates.push_back({graph.values[static_cast<size_t>(buffer)].tensor, value});
}

Graph GraphBuilder::finish(const std::vector<ValueId>& outputs) {
  for (const ValueId value : outputs) graph.outputs.push_back({"output", TensorRef{value}});
  graph.path = "hand-built";
  graph.dynamic_batch = true;
  graph.example_batch = 4;
  return graph;
}

at::Tensor numbers(const std::string& name, at::IntArrayRef sizes, at::ScalarType type) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(std::hash<std::string>()(name));
  return at::randn(sizes, at::TensorOptions(at::kDouble)).to(type) / 2;
}

ValueId linear(GraphBuilder& builder, const std::string& name, ValueId input, int64_t in,
               int64_t out, DType dtype) {
  const at::ScalarType type = scalar_type(dtype);
  const ValueId weight = builder.parameter(name + ".weight", numbers(name, {out, in}, type));
  const ValueId bias = builder.parameter(name + ".bias", numbers(name + "b", {out}, type));
  return builder.one("aten::linear",
                     {{"input", ref(input)}, {"weight", ref(weight)}, {"bias", ref(bias)}}, dtype);
}

}  // namespace penstock::test
