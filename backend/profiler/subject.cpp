#include "backend/profiler/subject.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "backend/executor/update/gradient_norm.hpp"
#include "backend/operators/parts.hpp"
#include "backend/profiler/grouping.hpp"

namespace penstock::profiler {
namespace {

std::set<int> all_tensors(const Graph& graph) {
  std::set<int> indices;
  for (int i = 0; i < static_cast<int>(graph.tensors.size()); ++i) indices.insert(i);
  return indices;
}

std::vector<OperatorId> begins(const std::vector<Unit>& units) {
  std::vector<OperatorId> positions;
  positions.reserve(units.size());
  for (const Unit& unit : units) positions.push_back(unit.begin);
  return positions;
}

OptimizerSpec standing_still(OptimizerSpec spec) {
  spec.learning_rate = 0;
  for (ParameterGroup& group : spec.groups)
    if (group.learning_rate) group.learning_rate = 0;
  return spec;
}

TensorGroup first_of(int parts) {
  TensorGroup group;
  group.ranks.resize(static_cast<size_t>(parts));
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

TensorStore load(const Graph& graph, at::Device device, const GroupTensors* group) {
  if (group == nullptr) return {graph, all_tensors(graph), device};
  const auto own = [&](int index, const at::Tensor& whole) {
    return sharding::own_part(whole, group->layouts[static_cast<size_t>(index)], group->parts, 0);
  };
  return {group->whole, all_tensors(graph), device, nullptr, own};
}

}  // namespace

Subject::Subject(const Job& the_job, const Graph& the_graph, ComputeDevice& the_device,
                 const GroupTensors* group)
    : device(the_device),
      job(the_job),
      graph(the_graph),
      alone(first_of(group ? group->parts : 1)),
      here(alone),
      analysis(analyse(graph)),
      units(penstock::units(graph, analysis)),
      groups(group_begins(graph, analysis, units)),
      batches(job, group ? group->whole : graph, device.where()),
      store(load(graph, device.where(), group)),
      optimizer(standing_still(job.optimizer),
                parameter_settings(standing_still(job.optimizer), graph)),
      whole(graph, analysis, {0}, store, job.loss, device),
      by_unit(graph, analysis, begins(units), store, job.loss, device),
      by_group(graph, analysis, groups, store, job.loss, device) {
  if (job.precision == Precision::bf16) store.sum_in_float32();
}

/// Clips to half the norm, so that the gradients are written as well.
void Subject::step_optimizer() {
  if (job.optimizer.clip_norm > 0) {
    const double norm = std::sqrt(squared_norm(store, parameters()));
    clip_gradients(store, norm, norm / 2);
  }
  optimizer.step(store, parameters());
}

StepContext Subject::context(int64_t microbatch, int repetition) const {
  StepContext context;
  context.random = {.seed = job.seed, .step = repetition, .microbatch = 0};
  context.batch = microbatch;
  context.float32_loss = job.precision == Precision::bf16;
  context.loss_scale = double(microbatch) / double(job.global_batch);
  return context;
}

std::set<int> Subject::parameters() const {
  std::set<int> indices;
  for (int i = 0; i < static_cast<int>(graph.tensors.size()); ++i) {
    if (graph.tensors[i].requires_grad) indices.insert(i);
  }
  return indices;
}

int64_t Subject::parameter_bytes() const {
  int64_t bytes = 0;
  for (const int index : parameters()) bytes += graph.tensors[index].bytes();
  return bytes;
}

int64_t Subject::largest_crossing(int64_t size) const {
  int64_t bytes = 0;
  for (const StageEdge& edge : by_unit.slicing().edges)
    for (const Crossing& crossing : edge.values)
      bytes = std::max(bytes, graph.values[crossing.value].bytes(size));
  return bytes;
}

}  // namespace penstock::profiler
