#include "tests/pipeline/tiny_model.hpp"

#include <stdexcept>

namespace penstock {

TinyModel::TinyModel() {
  graph_.path = "tiny.pt2";
  graph_.sha256 = std::string(64, 'a');
  graph_.values.push_back({.name = "x", .kind = Value::Kind::user_input, .shape = {4, 8}});
  graph_.inputs = {0};
  last_ = 0;
}

ValueId TinyModel::value_named(const std::string& name) const {
  for (size_t id = 0; id < graph_.values.size(); ++id) {
    if (graph_.values[id].name == name) return static_cast<ValueId>(id);
  }
  throw std::logic_error("no value " + name);
}

ValueId TinyModel::weight_value(const std::string& weight) {
  for (size_t id = 0; id < graph_.values.size(); ++id) {
    if (graph_.values[id].name == weight) return static_cast<ValueId>(id);
  }
  StoredTensor tensor{.name = weight, .requires_grad = true};
  tensor.sizes = {8, 8};
  tensor.strides = {8, 1};
  graph_.tensors.push_back(tensor);
  graph_.values.push_back({.name = weight,
                           .kind = Value::Kind::tensor,
                           .shape = {8, 8},
                           .tensor = static_cast<int>(graph_.tensors.size()) - 1});
  return static_cast<ValueId>(graph_.values.size()) - 1;
}

TinyModel& TinyModel::add(const std::string& name, const std::vector<std::string>& modules,
                          const std::vector<std::string>& also_reads, const std::string& weight) {
  Operator op{.name = name, .target = "aten::linear", .modules = modules};
  op.arguments.push_back({"input", TensorRef{last_}});
  op.arguments.push_back(
      {"weight", TensorRef{weight_value(weight.empty() ? name + ".w" : weight)}});
  for (const std::string& other : also_reads) {
    op.arguments.push_back({other, TensorRef{value_named(other)}});
  }
  const auto id = static_cast<OperatorId>(graph_.operators.size());
  last_ = static_cast<ValueId>(graph_.values.size());
  graph_.values.push_back({.name = name, .shape = {4, 8}, .producer = id});
  op.outputs = {last_};
  graph_.operators.push_back(op);
  return *this;
}

Graph TinyModel::graph() const {
  Graph result = graph_;
  result.outputs = {{"output", TensorRef{last_}}};
  return result;
}

TinyModel layered_model() {
  TinyModel model;
  model.add("embedding", {"embed"});
  for (const char* layer : {"0", "1", "2", "3"}) {
    const std::string path = std::string("layers.") + layer;
    model.add("linear_" + std::string(layer), {path, path + ".linear"});
    model.add("relu_" + std::string(layer), {path, path + ".relu"});
  }
  return model.add("logits", {"head"});
}

}  // namespace penstock
