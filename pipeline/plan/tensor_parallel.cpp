#include "pipeline/plan/tensor_parallel.hpp"

#include <algorithm>
#include <iterator>

#include "base/error.hpp"
#include "base/yaml.hpp"
#include "graph/analysis/mean_of_targets.hpp"
#include "graph/sharding/local_graph.hpp"
#include "pipeline/sharding/group_completion.hpp"
#include "pipeline/sharding/sharding_keys.hpp"

namespace penstock {

namespace {

void require_operators(const YamlMap& map, const Plan& plan) {
  if (!plan.layers) return;
  throw InputError(map.place("tensor_parallel"), "a table of layers has no operators to split",
                   "Remove it, or plan a model.");
}

}  // namespace

void parse_tensor_parallel(YamlMap& map, Plan& plan) {
  plan.tensor_parallel = map.integer("tensor_parallel", 1, max_tensor_parallel, 1);
  if (map.has("sharding")) {
    if (plan.tensor_parallel == 1)
      throw InputError(map.place("sharding"), "one rank has nothing to split",
                       "Add tensor_parallel, the number of ranks of a tensor group.");
    plan.sharding = parse_sharding(map.map("sharding"));
  }
  if (plan.tensor_parallel > 1) require_operators(map, plan);
}

namespace {

/// A split target would leave each part a mean of its own.
void require_whole_targets(const Plan& plan, const Graph& model, const Graph& local) {
  const auto computes_mean = [](const Graph& graph) {
    return mean_loss(graph, analyse(graph)).has_value();
  };
  if (plan.job.loss.kind == Loss::output && computes_mean(model) && !computes_mean(local))
    throw InputError(plan.path, "the targets that the model's own loss counts are split",
                     "Pin the values that the loss reads: {whole}, or leave the loss to the job.");
}

}  // namespace

PlannedModel planned_model(const Plan& plan, Graph model) {
  if (plan.tensor_parallel == 1) return {std::move(model), std::nullopt};
  const int parts = static_cast<int>(plan.tensor_parallel);
  const auto completion =
      group_completion(model, plan.job.loss, plan.sharding, plan.microbatch, parts);
  sharding::LocalGraph local = sharding::local_graph(model, completion);
  require_whole_targets(plan, model, local.graph);
  return {std::move(local.graph), GroupTensors{std::move(model), parts, std::move(local.tensors)}};
}

/// Splits of values that are pinned are for the plan's own size.
Graph with_batch(const Plan& plan, const GroupTensors& group, int64_t microbatch) {
  sharding::Pins pins{.costs = plan.sharding.costs,
                      .random_by_part = plan.sharding.random_by_part,
                      .gathers_again = plan.sharding.gathers_again};
  for (size_t i = 0; i < group.layouts.size(); ++i) {
    const StoredTensor& tensor = group.whole.tensors[i];
    if (tensor.kind == StoredTensor::Kind::parameter)
      pins.parameters.push_back({tensor.name, group.layouts[i]});
  }
  std::ranges::copy_if(plan.sharding.values, std::back_inserter(pins.values),
                       [](const sharding::Pin& pin) { return !pin.layout.is_split(); });
  const auto completion = sharding::complete(group.whole, pins, microbatch, group.parts, 1,
                                             first_output(plan.job.loss));
  Graph local = sharding::local_graph(group.whole, completion).graph;
  require_whole_targets(plan, group.whole, local);
  return local;
}

}  // namespace penstock
