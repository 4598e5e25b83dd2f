#include "bench/planner/piper/stages.hpp"

#include <algorithm>
#include <utility>

namespace penstock::bench {

double StageVariant::time_s(int data_parallel) const {
  const double d = data_parallel;
  return shared_s / d + synchronize_s * (d - 1) / d;
}

PiperStages::PiperStages(const PiperGraph& graph) : graph_(graph), edges_(graph.nodes.size()) {
  for (int edge = 0; edge < static_cast<int>(graph.dag.edges.size()); ++edge) {
    const auto [from, to] = graph.dag.edges[edge];
    edges_[from].push_back(edge);
    edges_[to].push_back(edge);
  }
}

std::vector<std::vector<StageVariant>> PiperStages::variants(const std::vector<int>& nodes,
                                                             int tensor_parallel) const {
  std::vector<bool> inside(graph_.nodes.size());
  for (const int node : nodes) inside[node] = true;
  std::vector<std::vector<StageVariant>> result;
  result.reserve(nodes.size());
  for (const int node : nodes) {
    const auto found = graph_.nodes[node].variants.find(tensor_parallel);
    if (found == graph_.nodes[node].variants.end()) return {};
    std::vector<StageVariant>& variants = result.emplace_back();
    variants.reserve(found->second.size());
    for (const PiperVariant& variant : found->second)
      variants.push_back({variant.time_s + moved_bytes(node, variant, inside) / graph_.bytes_per_s,
                          4 * variant.parameter_bytes / graph_.batch / graph_.bytes_per_s,
                          variant.bytes_per_sample, variant.bytes});
  }
  return result;
}

std::vector<std::vector<Variant>> PiperStages::variants(const std::vector<int>& nodes,
                                                        int tensor_parallel, int data_parallel,
                                                        int samples_in_flight) const {
  std::vector<std::vector<Variant>> result;
  result.reserve(nodes.size());
  for (const auto& node : variants(nodes, tensor_parallel)) {
    std::vector<Variant>& variants = result.emplace_back();
    variants.reserve(node.size());
    for (const StageVariant& one : node)
      variants.push_back(
          {one.time_s(data_parallel), one.bytes_per_sample * samples_in_flight + one.bytes});
  }
  return result;
}

/// Bytes that the node's edges into and out of the stage carry for a sample, there and back.
double PiperStages::moved_bytes(int node, const PiperVariant& variant,
                                const std::vector<bool>& inside) const {
  double bytes = 0;
  for (const int edge : edges_[node]) {
    const auto [from, to] = graph_.dag.edges[edge];
    if (to == node && !inside[from])
      bytes += 2 * (graph_.edge_bytes[edge] + variant.sync_in_bytes.at(from));
    if (from == node && !inside[to])
      bytes += 2 * (graph_.edge_bytes[edge] + variant.sync_out_bytes.at(to));
  }
  return bytes;
}

StageOption::StageOption(const PiperStages& stages, std::vector<int> nodes, int tensor_parallel,
                         const std::vector<int>& data_parallel)
    : stages_(&stages),
      data_parallel_(&data_parallel),
      nodes_(std::move(nodes)),
      tensor_parallel_(tensor_parallel) {
  const auto variants = stages.variants(nodes_, tensor_parallel);
  if (variants.empty()) return;
  least_ = {};
  for (const auto& node : variants) {
    least_.shared_s += std::ranges::min(node, {}, &StageVariant::shared_s).shared_s;
    least_.synchronize_s += std::ranges::min(node, {}, &StageVariant::synchronize_s).synchronize_s;
  }
}

double StageOption::least_s(int i) const {
  constexpr double rounding = 1e-9;
  return (1 - rounding) * least_.time_s((*data_parallel_)[i]);
}

double StageOption::time_s(int i, int samples_in_flight, double bound_s) const {
  if (samples_in_flight >= too_many_) return infinite;
  const auto [found, is_new] =
      known_s_.try_emplace(static_cast<int64_t>(i) << 32 | samples_in_flight);
  TimeRange& known = found->second;
  if (is_new) known = time_range(at(i, samples_in_flight), stages_->graph().device_bytes);
  if (known.least_s == infinite) too_many_ = samples_in_flight;  // with any d
  if (known.least_s <= bound_s && bound_s < known.most_s)
    known.least_s = known.most_s = choice(i, samples_in_flight).time_s;
  return known.most_s;
}

Choice StageOption::choice(int i, int samples_in_flight) const {
  return cheapest(at(i, samples_in_flight), stages_->graph().device_bytes);
}

std::vector<std::vector<Variant>> StageOption::at(int i, int samples_in_flight) const {
  return stages_->variants(nodes_, tensor_parallel_, (*data_parallel_)[i], samples_in_flight);
}

}  // namespace penstock::bench
