// The signature: which inputs are parameters, buffers and user inputs, which size is the batch,
// which outputs are the user's and which update buffers.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "graph/pt2/reader.hpp"

namespace penstock::pt2 {
namespace {

constexpr const char* batch_cure =
    "Export with the first dimension of every input dynamic, under one name (the batch), as "
    "tools/export_model.py does; or with --static.";

std::string symbol_of(const Json& size) {
  const auto& text = size.at("as_expr").at("expr_str").get_ref<const std::string&>();
  if (!text.starts_with("Symbol('")) return text;
  return text.substr(8, text.find('\'', 8) - 8);
}

/// The batch symbol is the open first size of a user input; the example batch is its hint.
void find_batch(ModelReader& reader, const std::string& name, const Json& sizes) {
  Graph& graph = reader.graph;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    const Json& size = sizes[dim];
    if (!size.contains("as_expr")) continue;
    const std::string symbol = symbol_of(size);
    const bool open = graph.dynamic_batch;
    if (dim > 0 || symbol.find('(') != std::string::npos || (open && symbol != reader.batch_symbol))
      reader.refuse(fmt::format("input '{}' has the open size {} in dimension {}{}", name, symbol,
                                dim, open ? ", while the batch is " + reader.batch_symbol : ""),
                    batch_cure);
    reader.batch_symbol = symbol;
    graph.dynamic_batch = true;
    graph.example_batch = whole(size.at("as_expr").at("hint").at("as_int"));
  }
}

/// A fixed batch: the first size of the first input that has one.
void find_static_batch(Graph& graph, const std::vector<const Json*>& shapes) {
  for (const Json* sizes : shapes) {
    if (sizes->empty()) continue;
    graph.example_batch = graph.min_batch = graph.max_batch = whole(sizes->front().at("as_int"));
    return;
  }
}

void read_range(ModelReader& reader, const Json& model) {
  const auto ranges = model.find("range_constraints");
  if (ranges == model.end() || !ranges->contains(reader.batch_symbol)) return;
  const Json& range = ranges->at(reader.batch_symbol);
  const auto bound = [&](const char* name, int64_t otherwise) {
    const auto value = range.find(name);
    return value == range.end() || value->is_null() ? otherwise : whole(*value);
  };
  reader.graph.min_batch = std::max<int64_t>(1, bound("min_val", 1));
  reader.graph.max_batch = bound("max_val", INT64_MAX);
}

/// (name, sizes) of the user inputs that are tensors, before anything is bound.
void read_batch(ModelReader& reader, const Scope& scope, const Json& model, const Json& specs) {
  std::vector<const Json*> shapes;
  for (const Json& spec : specs) {
    const auto input = spec.find("user_input");
    if (input == spec.end() || !input->at("arg").contains("as_tensor")) continue;
    const auto name = input->at("arg").at("as_tensor").at("name").get<std::string>();
    shapes.push_back(&scope.graph.at("tensor_values").at(name).at("sizes"));
    find_batch(reader, name, *shapes.back());
  }
  if (reader.graph.dynamic_batch)
    read_range(reader, model);
  else
    find_static_batch(reader.graph, shapes);
  for (const Json* sizes : shapes)
    if (reader.graph.dynamic_batch && (sizes->empty() || !sizes->front().contains("as_expr")))
      reader.refuse("an input has no batch dimension while another has one", batch_cure);
}

/// A value that the graph is given; its table has to describe it.
ValueId add_input(ModelReader& reader, Scope& scope, const std::string& name, Value::Kind kind) {
  const ValueId id = add_value(reader, scope, name, kind);
  if (id < 0) reader.refuse(fmt::format("the input '{}' is not described", name));
  return id;
}

/// Values of one tensor are one value, whatever its names.
void bind_tensor(ModelReader& reader, Scope& scope, const std::string& name, int tensor) {
  if (const auto bound = reader.bound.find(tensor); bound != reader.bound.end()) {
    scope.tensors[name] = bound->second;
    return;
  }
  const ValueId id = add_input(reader, scope, name, Value::Kind::tensor);
  reader.graph.values[id].tensor = tensor;
  reader.bound.emplace(tensor, id);
}

void bind_user_input(ModelReader& reader, Scope& scope, const Json& argument) {
  const auto [tag, value] = member(argument);
  if (tag == "as_sym_int" || tag == "as_sym_float" || tag == "as_sym_bool" ||
      tag == "as_custom_obj")
    reader.refuse(fmt::format("a user input is of kind '{}'", tag), "Inputs have to be tensors.");
  if (tag != "as_tensor") return;  // a constant that the export has taken in
  const auto name = value->at("name").get<std::string>();
  reader.graph.inputs.push_back(add_input(reader, scope, name, Value::Kind::user_input));
}

void bind_input(ModelReader& reader, Scope& scope, const Json& spec, const Payloads& payloads) {
  const auto [kind, content] = member(spec);
  const auto bind = [&, content = content](const char* key, StoredTensor::Kind as) {
    const int tensor = find_tensor(reader, payloads, content->at(key).get<std::string>(), as);
    bind_tensor(reader, scope, content->at("arg").at("name").get<std::string>(), tensor);
    return tensor;
  };
  if (kind == "parameter") {
    bind("parameter_name", StoredTensor::Kind::parameter);
  } else if (kind == "buffer") {
    const int tensor = bind("buffer_name", StoredTensor::Kind::buffer);
    reader.graph.tensors[tensor].persistent = content->at("persistent").get<bool>();
  } else if (kind == "tensor_constant") {
    const int tensor = bind("tensor_constant_name", StoredTensor::Kind::constant);
    reader.graph.tensors[tensor].persistent = false;
  } else if (kind == "user_input") {
    bind_user_input(reader, scope, content->at("arg"));
  } else if (kind != "constant_input") {
    reader.refuse(fmt::format("the model has an input of kind '{}'", kind),
                  "Penstock takes tensors, parameters and buffers.");
  }
}

void read_update(ModelReader& reader, Scope& scope, const Json& spec) {
  const auto buffer = spec.at("buffer_name").get<std::string>();
  const auto tensor = reader.tensors.find(buffer);
  if (tensor == reader.tensors.end())
    reader.refuse(fmt::format("buffer '{}' is updated but not there", buffer));
  const ArgumentValue value = read_argument(reader, scope, Json{{"as_tensor", spec.at("arg")}});
  reader.graph.updates.push_back({tensor->second, std::get<TensorRef>(value).value});
}

/// Returns true for a user output.
bool read_output(ModelReader& reader, Scope& scope, const Json& spec) {
  const auto [kind, content] = member(spec);
  if (kind == "user_output") {
    reader.graph.outputs.push_back({"", read_argument(reader, scope, content->at("arg"))});
  } else if (kind == "buffer_mutation") {
    read_update(reader, scope, *content);
  } else if (kind == "user_input_mutation") {
    reader.refuse(fmt::format("the model writes to its input '{}'",
                              content->value("user_input_name", std::string("?"))),
                  "Write x = x + 1 instead of x += 1 in the model, and export it again.");
  } else {
    reader.refuse(fmt::format("the model has an output of kind '{}'", kind),
                  "Export the model for inference or training, not a joint graph.");
  }
  return kind == "user_output";
}

}  // namespace

void read_inputs(ModelReader& reader, Scope& scope, const Json& model, const Payloads& payloads) {
  const Json& specs = model.at("graph_module").at("signature").at("input_specs");
  read_batch(reader, scope, model, specs);
  for (const Json& spec : specs) bind_input(reader, scope, spec, payloads);
}

void read_outputs(ModelReader& reader, Scope& scope, const Json& model) {
  for (const Json& spec : model.at("graph_module").at("signature").at("output_specs"))
    read_output(reader, scope, spec);
  auto& outputs = reader.graph.outputs;
  const auto names = output_names(model, outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i].name = names[i];
}

}  // namespace penstock::pt2
