#include "pipeline/plan/tensor_parallel.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/yaml.hpp"
#include "graph/analysis/mean_of_targets.hpp"
#include "graph/sharding/complete.hpp"
#include "graph/sharding/local_graph.hpp"
#include "pipeline/plan/sharing.hpp"

namespace penstock {

namespace {

using sharding::Pin;

constexpr int64_t max_dimension = 63;
constexpr int64_t max_blocks = 1'000'000;
constexpr const char* key_whole = "whole";

sharding::Layout parse_layout(YamlMap& map, const std::string& key) {
  if (!map.has_map(key)) {
    if (map.text(key) == key_whole) return sharding::Layout::identical();
    throw InputError(map.place(key), fmt::format("`{}` is no layout", map.text(key)),
                     "Write {split: DIMENSION}, {split: DIMENSION, blocks: NUMBER} or whole.");
  }
  YamlMap layout = map.map(key);
  const int64_t dimension = layout.integer("split", 0, max_dimension);
  const int64_t blocks = layout.integer("blocks", 1, max_blocks, 1);
  layout.finish();
  return sharding::Layout::split(static_cast<int>(dimension), blocks);
}

std::vector<Pin> parse_pins(YamlMap& map, const std::string& key) {
  std::vector<Pin> pins;
  if (!map.has(key)) return pins;
  YamlMap given = map.map(key);
  for (const std::string& pattern : given.keys())
    pins.push_back({pattern, parse_layout(given, pattern), given.place(pattern)});
  return pins;
}

/// Until these are done for parts, too.
void check_combination(YamlMap& map, const Plan& plan) {
  const auto refuse = [&](const char* key, const char* problem, const char* cure) {
    throw InputError(map.place(key), problem, cure);
  };
  if (plan.layers)
    refuse("tensor_parallel", "a table of layers has no operators to split",
           "Remove it, or plan a model.");
  if (plan.optimizer_state == OptimizerState::sharded)
    refuse("optimizer_state", "does not go with tensor_parallel yet",
           "Remove it: each part then has the state of what it holds.");
  for (const auto& [name, way] : plan.shared_parameters) {
    if (way == way_transmit)
      refuse("shared_parameters", "transmit does not go with tensor_parallel yet",
             "Write replicate.");
  }
  if (plan.schedule == adaptive_schedule && plan.program.empty())
    refuse("schedule", "adaptive needs costs, which are not known of tensor groups yet",
           "Choose another schedule, or give a program.");
  if (plan.job.validation)
    refuse("job", "a validation set does not go with tensor_parallel yet", "Remove it.");
}

nlohmann::ordered_json keys_of(const std::vector<Pin>& pins) {
  nlohmann::ordered_json keys = nlohmann::ordered_json::object();
  for (const Pin& pin : pins) {
    nlohmann::ordered_json& layout = keys[pin.pattern];
    layout = key_whole;
    if (!pin.layout.is_split()) continue;
    layout = {{"split", pin.layout.dimension()}};
    if (pin.layout.blocks() > 1) layout["blocks"] = pin.layout.blocks();
  }
  return keys;
}

}  // namespace

void parse_tensor_parallel(YamlMap& map, Plan& plan) {
  plan.tensor_parallel = map.integer("tensor_parallel", 1, max_tensor_parallel, 1);
  if (map.has("sharding")) {
    if (plan.tensor_parallel == 1)
      throw InputError(map.place("sharding"), "one rank has nothing to split",
                       "Add tensor_parallel, the number of ranks of a tensor group.");
    YamlMap sharding = map.map("sharding");
    plan.sharding = {parse_pins(sharding, "parameters"), parse_pins(sharding, "values")};
    sharding.finish();
  }
  if (plan.tensor_parallel > 1) check_combination(map, plan);
}

nlohmann::ordered_json sharding_keys(const sharding::Pins& pins) {
  nlohmann::ordered_json keys;
  if (!pins.parameters.empty()) keys["parameters"] = keys_of(pins.parameters);
  if (!pins.values.empty()) keys["values"] = keys_of(pins.values);
  return keys;
}

std::set<int> GroupTensors::summed() const {
  std::set<int> tensors;
  for (size_t i = 0; i < layouts.size(); ++i)
    if (layouts[i].kind() == sharding::Layout::Kind::replicated)
      tensors.insert(static_cast<int>(i));
  return tensors;
}

PlannedModel planned_model(const Plan& plan, Graph model) {
  if (plan.tensor_parallel == 1) return {std::move(model), std::nullopt};
  const int parts = static_cast<int>(plan.tensor_parallel);
  const auto completion =
      sharding::complete(model, plan.sharding, plan.microbatch, parts, plan.microbatches);
  sharding::LocalGraph local = sharding::local_graph(model, completion);
  const auto computes_mean = [](const Graph& graph) {
    return mean_loss(graph, analyse(graph)).has_value();
  };
  if (plan.job.loss.kind == Loss::output && computes_mean(model) && !computes_mean(local.graph))
    throw InputError(plan.path, "the targets that the model's own loss counts are split",
                     "Pin the values that the loss reads: {whole}, or leave the loss to the job.");
  return {std::move(local.graph), GroupTensors{std::move(model), parts, std::move(local.tensors)}};
}

}  // namespace penstock
