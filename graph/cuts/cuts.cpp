#include "graph/cuts/cuts.hpp"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dominator_tree.hpp>
#include <numeric>

namespace penstock {
namespace {

/// The last operator of the data flow that reads the value; -1 where the value is never sent.
std::vector<OperatorId> last_readers(const Graph& graph, const Analysis& analysis) {
  std::vector<OperatorId> last(graph.values.size(), -1);
  for (OperatorId id = 0; id < static_cast<OperatorId>(graph.operators.size()); ++id)
    for (const ValueId read : graph.operators[id].reads()) {
      const Value& value = graph.values[read];
      if (value.kind == Value::Kind::intermediate && !analysis.constant[read] &&
          !analysis.parameter_derived[read])
        last[read] = id;
    }
  return last;
}

/// Whether each operator depends on a user input: the others (counters, masks, noise) may run
/// anywhere and say nothing about where the model can be cut.
std::vector<bool> follows_input(const Graph& graph) {
  std::vector<bool> value_follows(graph.values.size()), operator_follows(graph.operators.size());
  for (const ValueId input : graph.inputs) value_follows[input] = true;
  for (size_t id = 0; id < graph.operators.size(); ++id) {
    const auto reads = graph.operators[id].reads();
    operator_follows[id] =
        std::ranges::any_of(reads, [&](ValueId read) { return value_follows[read]; });
    for (const ValueId output : graph.operators[id].outputs)
      if (output >= 0) value_follows[output] = operator_follows[id];
  }
  return operator_follows;
}

/// The data flow as a tree of immediate dominators (T. Lengauer and R. Tarjan, "A fast algorithm
/// for finding dominators in a flowgraph", 1979). Vertex 0 is the source of all, vertex k + 1
/// operator k.
class DominatorTree {
 public:
  DominatorTree(const Graph& graph, const std::vector<bool>& in_flow) : flow_(in_flow.size() + 1) {
    for (size_t id = 0; id < in_flow.size(); ++id)
      if (in_flow[id]) connect(graph, in_flow, id);
    parent_.assign(boost::num_vertices(flow_), nowhere);
    boost::lengauer_tarjan_dominator_tree(
        flow_, Vertex{0},
        boost::make_iterator_property_map(parent_.begin(), get(boost::vertex_index, flow_)));
    depth_.assign(parent_.size(), 0);
    for (size_t vertex = 1; vertex < parent_.size(); ++vertex)
      if (parent_[vertex] != nowhere) depth_[vertex] = depth_[parent_[vertex]] + 1;
  }

  using Vertex = size_t;
  static constexpr Vertex nowhere = SIZE_MAX;

  /// The nearest vertex that dominates both.
  Vertex meet(Vertex a, Vertex b) const {
    while (a != b) (depth_[a] >= depth_[b] ? a : b) = parent_[depth_[a] >= depth_[b] ? a : b];
    return a;
  }
  bool dominates(Vertex above, Vertex below) const {
    while (depth_[below] > depth_[above]) below = parent_[below];
    return above == below;
  }

 private:
  void connect(const Graph& graph, const std::vector<bool>& in_flow, size_t id) {
    bool fed = false;
    for (const ValueId read : graph.operators[id].reads()) {
      const OperatorId producer = graph.values[read].producer;
      if (producer < 0 || !in_flow[producer]) continue;
      boost::add_edge(static_cast<Vertex>(producer) + 1, id + 1, flow_);
      fed = true;
    }
    if (!fed) boost::add_edge(0, id + 1, flow_);
  }

  boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS> flow_;
  std::vector<Vertex> parent_;
  std::vector<size_t> depth_;
};

}  // namespace

std::vector<ValueId> values_at_cut(const Graph& graph, const Analysis& analysis,
                                   OperatorId position) {
  const auto last = last_readers(graph, analysis);
  std::vector<ValueId> values;
  for (ValueId id = 0; id < static_cast<ValueId>(last.size()); ++id)
    if (last[id] >= position && graph.values[id].producer < position) values.push_back(id);
  return values;
}

std::vector<int64_t> cut_bytes(const Graph& graph, const Analysis& analysis, int64_t batch) {
  std::vector<int64_t> bytes(graph.operators.size() + 1);
  const auto last = last_readers(graph, analysis);
  for (ValueId id = 0; id < static_cast<ValueId>(last.size()); ++id) {
    if (last[id] < 0) continue;
    const int64_t size = graph.values[id].bytes(batch);
    bytes[graph.values[id].producer + 1] += size;
    bytes[last[id] + 1] -= size;
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  return bytes;
}

std::vector<bool> allowed_cuts(const Graph& graph) {
  const auto count = static_cast<OperatorId>(graph.operators.size());
  std::vector<bool> allowed(count + 1, true);
  const auto consumers = graph.consumers();
  for (const BufferUpdate& update : graph.updates) {
    const OperatorId producer = graph.values[update.value].producer;
    // An update that no operator computes belongs to the last stage.
    const OperatorId home = producer < 0 ? count : producer;
    for (size_t id = 0; id < graph.values.size(); ++id) {
      const Value& value = graph.values[id];
      if (value.kind != Value::Kind::tensor || value.tensor != update.tensor) continue;
      for (const OperatorId reader : consumers[id])
        for (OperatorId k = std::min(reader, home) + 1; k <= std::max(reader, home); ++k)
          allowed[k] = false;
    }
  }
  return allowed;
}

std::vector<OperatorId> dominator_cuts(const Graph& graph, const Analysis& analysis) {
  const auto count = static_cast<OperatorId>(graph.operators.size());
  const auto last = last_readers(graph, analysis);
  std::vector<int64_t> crossing(count + 1);   // how many values cross a cut …
  std::vector<int64_t> producers(count + 1);  // … and the sum of their producers' numbers
  for (ValueId id = 0; id < static_cast<ValueId>(last.size()); ++id) {
    if (last[id] < 0) continue;
    const OperatorId producer = graph.values[id].producer;
    ++crossing[producer + 1];
    --crossing[last[id] + 1];
    producers[producer + 1] += producer;
    producers[last[id] + 1] -= producer;
  }
  std::partial_sum(crossing.begin(), crossing.end(), crossing.begin());
  std::partial_sum(producers.begin(), producers.end(), producers.begin());
  const auto in_flow = follows_input(graph);
  const DominatorTree tree(graph, in_flow);
  std::vector<OperatorId> cuts;
  size_t rest =
      DominatorTree::nowhere;  // the nearest vertex that dominates all operators from k on
  for (OperatorId k = count - 1; k > 0; --k) {
    if (in_flow[k]) rest = rest == DominatorTree::nowhere ? k + 1 : tree.meet(rest, k + 1);
    if (crossing[k] != 1 || rest == DominatorTree::nowhere) continue;
    const auto producer = static_cast<size_t>(producers[k]);  // of the one value that crosses
    if (in_flow[producer] && tree.dominates(producer + 1, rest)) cuts.push_back(k);
  }
  std::ranges::reverse(cuts);
  return cuts;
}

}  // namespace penstock
