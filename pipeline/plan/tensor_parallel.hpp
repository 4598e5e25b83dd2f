// A plan's keys for tensor groups (`tensor_parallel`, `sharding`), and the graph that each of their
// ranks runs.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.hpp"
#include "graph/sharding/layout.hpp"
#include "pipeline/plan/plan.hpp"

namespace penstock {

class YamlMap;

/// Reads both keys; the plan has all others by then. Throws InputError, also for what plans with
/// tensor groups cannot have yet.
void parse_tensor_parallel(YamlMap& map, Plan& plan);

/// How the ranks of a tensor group hold the tensors of a model.
struct GroupTensors {
  Graph whole;  // the model itself
  int parts = 1;
  std::vector<sharding::Layout> layouts;  // of Graph::tensors
};

/// The model as each rank of a plan runs it.
struct PlannedModel {
  Graph graph;
  std::optional<GroupTensors> group;  // nothing where the plan has no tensor groups
};

/// Throws InputError for pins that cannot be.
PlannedModel planned_model(const Plan& plan, Graph model);

/// The graph of each part for microbatches of another size than the plan's; it holds the tensors as
/// `group` has them. Throws InputError where the model's own loss then counts targets in parts.
Graph with_batch(const Plan& plan, const GroupTensors& group, int64_t microbatch);

}  // namespace penstock
