#include "pipeline/layers/layer_model.hpp"

#include <algorithm>

namespace penstock {

namespace {

/// One byte each: sizes in a table are bytes.
constexpr DType activation = DType::float8_e4m3fn;

class GraphOfLayers {
 public:
  explicit GraphOfLayers(const LayerTable& table) : sizes_(table.sizes) {
    graph_.path = table.path;
    graph_.sha256 = table.sha256;
    graph_.layers = graph_.dynamic_batch = true;
    graph_.batch_coupled = false;
    graph_.example_batch = sizes_.front().microbatch;
  }

  Graph run() {
    ValueId handed = add({.name = "input", .kind = Value::Kind::user_input, .shape = samples(0)});
    graph_.inputs = {handed};
    for (const Layer& layer : sizes_.front().layers) handed = add_layer(layer, handed);
    graph_.outputs = {{"output", TensorRef{handed}}};
    return std::move(graph_);
  }

 private:
  static std::vector<Expression> samples(int64_t bytes) { return {Expression::batch(), bytes}; }

  ValueId add(Value value) {
    value.dtype = activation;
    graph_.values.push_back(std::move(value));
    return static_cast<ValueId>(graph_.values.size()) - 1;
  }

  ValueId add_tensor(StoredTensor::Kind kind, const std::string& name, int64_t bytes) {
    graph_.tensors.push_back({.kind = kind,
                              .name = name,
                              .requires_grad = kind == StoredTensor::Kind::parameter,
                              .dtype = activation,
                              .sizes = {bytes},
                              .strides = {1}});
    return add({.name = name,
                .kind = Value::Kind::tensor,
                .shape = {bytes},
                .tensor = static_cast<int>(graph_.tensors.size()) - 1});
  }

  ValueId add_layer(const Layer& layer, ValueId input) {
    const int64_t gradient = layer.gradient_bytes.value_or(0);
    const ValueId parameter =
        add_tensor(StoredTensor::Kind::parameter, layer.name + ".parameter", gradient);
    const ValueId held = add_tensor(StoredTensor::Kind::buffer, layer.name + ".static",
                                    layer.static_bytes - 2 * gradient);
    const auto id = static_cast<OperatorId>(graph_.operators.size());
    const ValueId output = add({.name = layer.name,
                                .shape = samples(layer.output_bytes / sizes_.front().microbatch),
                                .producer = id});
    graph_.operators.push_back({.name = layer.name,
                                .target = "penstock::layer",
                                .arguments = {{"input", TensorRef{input}},
                                              {"parameter", TensorRef{parameter}},
                                              {"static", TensorRef{held}}},
                                .outputs = {output},
                                .modules = {layer.name}});
    return output;
  }

  const std::vector<LayerCosts>& sizes_;
  Graph graph_;
};

Measured taking(double seconds) { return {.mean_s = seconds, .median_s = seconds}; }

/// `given`: what the layer before hands to it, and is handed back.
OperatorCost cost_of(const Layer& layer, int64_t given) {
  const int64_t output = layer.output_bytes, saved = layer.saved_bytes;
  OperatorCost cost{.name = layer.name, .target = "penstock::layer", .module = layer.name};
  cost.times = {taking(layer.forward_s), taking(layer.backward_s), taking(layer.backward_input_s),
                taking(layer.backward_weight_s)};
  cost.held = {.output = output,
               .forward = {saved + output - given, saved + output},
               .backward = {given - output - saved, given},
               .backward_input = {given, given},
               .backward_weight = {-output - saved, 0}};
  cost.recompute = layer.recompute;
  return cost;
}

MicrobatchCosts costs_of(const LayerCosts& size) {
  MicrobatchCosts costs{.microbatch = size.microbatch};
  int64_t given = 0;
  for (const Layer& layer : size.layers) {
    const int number = static_cast<int>(costs.operators.size());
    const OperatorCost& cost = costs.operators.emplace_back(cost_of(layer, given));
    costs.units.push_back({layer.name, number, number + 1, cost.times, cost.held});
    given = layer.output_bytes;
  }
  return costs;
}

}  // namespace

Graph layer_graph(const LayerTable& table) { return GraphOfLayers(table).run(); }

Profile layer_profile(const LayerTable& table) {
  Profile profile{.path = table.path, .model_sha256 = table.sha256};
  profile.job = job_of_layers(table.path);
  profile.job.global_batch = table.global_batch;
  profile.device.kind = layers_device;
  profile.links = {{.kind = "free"}};
  for (const LayerCosts& size : table.sizes) profile.microbatches.push_back(costs_of(size));
  return profile;
}

}  // namespace penstock
