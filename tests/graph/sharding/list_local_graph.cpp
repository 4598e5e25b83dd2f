// list-local-graph MODEL.pt2 PARTS GIVEN: the graph of a part, as JSON. GIVEN is a JSON object with
// lists of [PATTERN, LAYOUT] under `parameters` and `values`, and, where they are not the
// example's, 1 and 0, `batch`, `microbatches` and the prices `state` and `saved`.
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "graph/pt2/pt2.hpp"
#include "graph/sharding/local_graph.hpp"

using namespace penstock;  // NOLINT
using nlohmann::json;

namespace {

std::vector<sharding::Pin> pins(const json& list) {
  std::vector<sharding::Pin> all;
  for (const auto& [pattern, layout] : list.get<std::vector<std::array<std::string, 2>>>())
    all.push_back({pattern, sharding::Layout::parse(layout).value()});
  return all;
}

struct ToJson {
  const Graph& graph;

  json name(ValueId value) const { return value < 0 ? json() : json(graph.values[value].name); }
  json operator()(const None&) const { return nullptr; }
  json operator()(const TensorRef& tensor) const { return {{"tensor", name(tensor.value)}}; }
  json operator()(const TensorList& list) const {
    auto names = json::array();
    for (const auto& value : list.values) names.push_back(name(value.value_or(-1)));
    return {{"tensors", names}};
  }
  json operator()(const std::complex<double>& number) const {
    return {{"complex", {number.real(), number.imag()}}};
  }
  json operator()(double number) const {
    return std::isfinite(number) ? json(number) : json{{"number", std::to_string(number)}};
  }
  json operator()(const Expression& size) const {
    return std::visit([](auto number) { return json(number); }, size.evaluate(graph.example_batch));
  }
  json operator()(const std::vector<Expression>& sizes) const {
    auto all = json::array();
    for (const Expression& size : sizes) all.push_back((*this)(size));
    return all;
  }
  json operator()(const DType& dtype) const { return {{"dtype", penstock::name(dtype)}}; }
  json operator()(const MemoryFormat& format) const {
    return {{"memory_format", format.schema_value}};
  }
  json operator()(const Layout& layout) const { return {{"layout", layout.schema_value}}; }
  json operator()(const Device& device) const { return {{"device", device.type}}; }
  json operator()(const auto& plain) const { return plain; }

  json argument(const ArgumentValue& value) const { return std::visit(*this, value); }
  json operation(const Operator& op) const {
    auto arguments = json::object();
    for (const Argument& each : op.arguments) arguments[each.name] = argument(each.value);
    auto outputs = json::array();
    auto shapes = json::array();
    for (const ValueId value : op.outputs) {
      outputs.push_back(name(value));
      shapes.push_back(value < 0 ? json() : (*this)(graph.values[value].shape));
    }
    return {{"target", op.target},     {"overload", op.overload}, {"arguments", arguments},
            {"outputs", outputs},      {"shapes", shapes},        {"name", op.name},
            {"grad", op.grad_enabled}, {"modules", op.modules}};
  }
};

json listed(const sharding::LocalGraph& local) {
  const ToJson to_json{local.graph};
  json all{{"tensors", json::object()},
           {"operators", json::array()},
           {"outputs", json::array()},
           {"inputs", json::array()},
           {"held", local.graph.outputs.front().held},
           {"updates", json::object()}};
  for (const Value& value : local.graph.values)
    if (value.tensor >= 0)
      all["tensors"][value.name] = {{"name", local.graph.tensors[value.tensor].name},
                                    {"sizes", local.graph.tensors[value.tensor].sizes},
                                    {"layout", local.tensors[value.tensor].str()}};
  for (const Operator& op : local.graph.operators)
    all["operators"].push_back(to_json.operation(op));
  for (const ValueId value : local.graph.inputs) all["inputs"].push_back(to_json.name(value));
  for (const Output& output : local.graph.outputs)
    all["outputs"].push_back(to_json.argument(output.value));
  for (const BufferUpdate& update : local.graph.updates)
    all["updates"][local.graph.tensors[update.tensor].name] = to_json.name(update.value);
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    const Graph graph = read_pt2(argv[1]);
    const json given = json::parse(argv[3]);
    const auto number = [&](const char* key, int64_t otherwise) {
      return given.value(key, otherwise);
    };
    const auto completion = sharding::complete(
        graph,
        {pins(given.at("parameters")),
         pins(given.at("values")),
         {.state_byte = number("state", 0), .saved_byte = number("saved", 0)}},
        number("batch", graph.example_batch), std::atoi(argv[2]), number("microbatches", 1),
        given.value("logits", false) ? sharding::FirstOutput::logits : sharding::FirstOutput::any);
    json all = listed(sharding::local_graph(graph, completion));
    all["cost"] = completion.cost;
    all["weighed"] = completion.weighed;
    all["state_bytes"] = completion.state_bytes;
    all["saved_bytes"] = completion.saved_bytes;
    all["states"] = completion.states;
    all["exact"] = completion.exact;
    std::cout << all << "\n";
  } catch (const InputError& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
