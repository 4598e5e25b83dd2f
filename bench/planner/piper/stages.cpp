#include "bench/planner/piper/stages.hpp"

#include <algorithm>

namespace penstock::bench {

namespace {

/// Bytes that the node's edges into and out of the stage carry for a sample, there and back.
double edge_bytes(const PiperGraph& graph, int node, const PiperVariant& variant,
                  const std::vector<bool>& inside) {
  double bytes = 0;
  for (size_t i = 0; i < graph.dag.edges.size(); ++i) {
    const auto [from, to] = graph.dag.edges[i];
    if (to == node && !inside[from])
      bytes += 2 * (graph.edge_bytes[i] + variant.sync_in_bytes.at(from));
    if (from == node && !inside[to])
      bytes += 2 * (graph.edge_bytes[i] + variant.sync_out_bytes.at(to));
  }
  return bytes;
}

}  // namespace

std::vector<std::vector<StageVariant>> stage_variants(const PiperGraph& graph,
                                                      const std::vector<int>& nodes,
                                                      int tensor_parallel) {
  std::vector<bool> inside(graph.nodes.size());
  for (const int node : nodes) inside[node] = true;
  std::vector<std::vector<StageVariant>> result;
  for (const int node : nodes) {
    const auto found = graph.nodes[node].variants.find(tensor_parallel);
    if (found == graph.nodes[node].variants.end()) return {};
    std::vector<StageVariant>& variants = result.emplace_back();
    for (const PiperVariant& variant : found->second)
      variants.push_back(
          {variant.time_s + edge_bytes(graph, node, variant, inside) / graph.bytes_per_s,
           4 * variant.parameter_bytes / graph.batch / graph.bytes_per_s, variant.bytes_per_sample,
           variant.bytes});
  }
  return result;
}

std::vector<std::vector<Variant>> at(const std::vector<std::vector<StageVariant>>& variants,
                                     int data_parallel, int samples_in_flight) {
  const double d = data_parallel;
  std::vector<std::vector<Variant>> result(variants.size());
  for (size_t i = 0; i < variants.size(); ++i)
    for (const StageVariant& one : variants[i])
      result[i].push_back({one.shared_s / d + one.synchronize_s * (d - 1) / d,
                           one.bytes_per_sample * samples_in_flight + one.bytes});
  return result;
}

StageOption::StageOption(const PiperGraph& graph, std::vector<int> nodes, int tensor_parallel,
                         const std::vector<int>& data_parallel)
    : capacity_bytes_(graph.device_bytes),
      nodes_(std::move(nodes)),
      tensor_parallel_(tensor_parallel),
      data_parallel_(data_parallel),
      variants_(stage_variants(graph, nodes_, tensor_parallel)) {
  for (const int d : data_parallel) {
    unlimited_s_.push_back(0);
    for (const auto& node : at(variants_, d, 1))
      unlimited_s_.back() += std::ranges::min(node, {}, &Variant::time_s).time_s;
  }
}

double StageOption::time_s(int i, int samples_in_flight) const {
  const int64_t key = static_cast<int64_t>(i) << 32 | samples_in_flight;
  const auto found = known_s_.find(key);
  if (found != known_s_.end()) return found->second;
  return known_s_[key] = choice(i, samples_in_flight).time_s;
}

Choice StageOption::choice(int i, int samples_in_flight) const {
  return cheapest(at(variants_, data_parallel_[i], samples_in_flight), capacity_bytes_);
}

}  // namespace penstock::bench
