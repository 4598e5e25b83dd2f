#include "bench/planner/layers.hpp"

namespace penstock::bench {

namespace {

LayerGraph only(const LayerGraph& graph, const std::vector<bool>& kept) {
  LayerGraph result;
  std::vector<int> number(graph.layers.size(), -1);
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    if (!kept[i]) continue;
    number[i] = result.dag.nodes++;
    result.layers.push_back(graph.layers[i]);
  }
  for (const auto& [from, to] : graph.dag.edges)
    if (kept[from] && kept[to]) result.dag.edges.emplace_back(number[from], number[to]);
  return result;
}

}  // namespace

LayerGraph without_ends(const LayerGraph& graph) {
  const auto before = graph.dag.predecessors();
  std::vector<bool> kept(graph.layers.size());
  for (size_t i = 0; i < graph.layers.size(); ++i)
    kept[i] = !before[i].empty() || !graph.layers[i].description.starts_with("Input");
  const LayerGraph placed = only(graph, kept);
  const auto after = placed.dag.successors();
  kept.resize(placed.layers.size());
  for (size_t i = 0; i < placed.layers.size(); ++i)
    kept[i] = !after[i].empty() || !placed.layers[i].description.starts_with("__getitem__");
  return only(placed, kept);
}

LayerSums sums(const LayerGraph& graph, const std::vector<bool>& set) {
  LayerSums result;
  std::vector<bool> leaves(graph.layers.size());
  for (const auto& [from, to] : graph.dag.edges)
    if (set[from] && !set[to]) leaves[from] = true;
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    const Layer& layer = graph.layers[i];
    if (leaves[i]) result.output_bytes += layer.activation_bytes;
    if (!set[i]) continue;
    result.compute_s += layer.forward_s + layer.backward_s;
    result.parameter_bytes += layer.parameter_bytes;
  }
  return result;
}

std::vector<LayerSums> sums(const LayerGraph& graph, const Downsets& downsets) {
  std::vector<LayerSums> result;
  std::vector<bool> set(graph.layers.size());
  for (int i = 0; i < downsets.count(); ++i) {
    for (size_t layer = 0; layer < set.size(); ++layer)
      set[layer] = downsets.contains(i, static_cast<int>(layer));
    result.push_back(sums(graph, set));
  }
  return result;
}

}  // namespace penstock::bench
