#include "planner/model/refine_cuts.hpp"

#include <algorithm>
#include <set>
#include <variant>

#include "graph/operators/facts.hpp"
#include "planner/model/min_cut.hpp"

namespace penstock {

namespace {

constexpr double kLightStageShare = 1.0 / 64;

class Refinement {
 public:
  Refinement(const Graph& model, const Analysis& analysis, const Slicing& slicing,
             const MicrobatchCosts& measured)
      : model_(model),
        analysis_(analysis),
        microbatch_(measured.microbatch),
        stage_of_(slicing.stage_of_operator),
        stages_(static_cast<int>(slicing.stages.size())),
        movable_(model.operators.size(), 0),
        readers_(model.values.size()) {
    for (size_t op = 0; op < model.operators.size(); ++op) {
      if (is_recomputed(model.operators[op], analysis)) continue;
      for (const ValueId value : model.operators[op].reads())
        readers_[static_cast<size_t>(value)].push_back(static_cast<OperatorId>(op));
    }
    find_movable(measured);
  }

  std::vector<int> run() {
    for (int stage = 0; stage + 1 < stages_; ++stage) refine(stage);
    return std::move(stage_of_);
  }

 private:
  static constexpr int source = 0, sink = 1;

  void find_movable(const MicrobatchCosts& measured) {
    std::vector<double> stage_s(static_cast<size_t>(stages_), 0.0);
    const auto seconds = [&](size_t op) {
      const ActionTimes& times = measured.operators[op].times;
      return times.forward.mean_s + times.backward.mean_s;
    };
    for (size_t op = 0; op < movable_.size(); ++op)
      stage_s[static_cast<size_t>(stage_of_[op])] += seconds(op);
    const std::set<ValueId> kept = kept_values();
    for (size_t op = 0; op < movable_.size(); ++op) {
      const Operator& one = model_.operators[op];
      const auto stays = [&](ValueId value) { return kept.contains(value); };
      movable_[op] = !is_recomputed(one, analysis_) && !is_mutating(one) &&
                     seconds(op) < kLightStageShare * stage_s[static_cast<size_t>(stage_of_[op])] &&
                     std::ranges::none_of(one.outputs, stays) &&
                     std::ranges::none_of(one.reads(), stays);
    }
  }

  /// Outputs of the model, and buffers that are updated.
  std::set<ValueId> kept_values() const {
    std::set<ValueId> kept;
    for (const Output& output : model_.outputs) {
      if (const auto* tensor = std::get_if<TensorRef>(&output.value)) kept.insert(tensor->value);
    }
    std::set<int> updated;
    for (const BufferUpdate& update : model_.updates) {
      kept.insert(update.value);
      updated.insert(update.tensor);
    }
    for (size_t value = 0; value < model_.values.size(); ++value) {
      if (updated.contains(model_.values[value].tensor)) kept.insert(static_cast<ValueId>(value));
    }
    return kept;
  }

  /// The node of an operator in the cut behind `stage`.
  int node_of(OperatorId op, int stage, std::vector<int>& nodes, int& count) const {
    const auto at = static_cast<size_t>(op);
    const int own = stage_of_[at];
    const bool moves = movable_[at] && (own == stage || own == stage + 1);
    if (!moves) return own <= stage ? source : sink;
    if (nodes[at] < 0) nodes[at] = count++;
    return nodes[at];
  }

  /// Capacity of an edge of so many bytes; larger than what all moves cost, so that operators move
  /// only for bytes.
  int64_t capacity(int64_t bytes) const {
    return bytes * (static_cast<int64_t>(model_.operators.size()) + 1);
  }

  bool is_sent(ValueId value) const {
    const auto at = static_cast<size_t>(value);
    return model_.values[at].producer >= 0 && !analysis_.constant[at] &&
           !analysis_.parameter_derived[at] && !readers_[at].empty();
  }

  void refine(int stage) {
    std::vector<int> nodes(model_.operators.size(), -1);
    int count = 2;
    std::vector<CapacityEdge> edges;
    for (ValueId value = 0; value < static_cast<ValueId>(model_.values.size()); ++value) {
      if (!is_sent(value)) continue;
      const auto at = static_cast<size_t>(value);
      const int from = node_of(model_.values[at].producer, stage, nodes, count);
      const int crossing = count++;
      const int64_t ways = analysis_.requires_grad[at] ? 2 : 1;
      edges.push_back({from, crossing, capacity(ways * model_.values[at].bytes(microbatch_))});
      for (const OperatorId reader : readers_[at]) {
        const int to = node_of(reader, stage, nodes, count);
        edges.push_back({crossing, to, CapacityEdge::infinite});
        edges.push_back({to, from, CapacityEdge::infinite});  // what it reads is made before
      }
    }
    for (size_t op = 0; op < nodes.size(); ++op) {
      if (nodes[op] < 0) continue;
      edges.push_back(stage_of_[op] == stage ? CapacityEdge{source, nodes[op], 1}
                                             : CapacityEdge{nodes[op], sink, 1});
    }
    const std::vector<char> before = min_cut(count, edges, source, sink);
    for (size_t op = 0; op < nodes.size(); ++op) {
      if (nodes[op] >= 0)
        stage_of_[op] = before[static_cast<size_t>(nodes[op])] ? stage : stage + 1;
    }
  }

  const Graph& model_;
  const Analysis& analysis_;
  const int64_t microbatch_;
  std::vector<int> stage_of_;
  const int stages_;
  std::vector<char> movable_;
  std::vector<std::vector<OperatorId>> readers_;  // of each value
};

}  // namespace

std::vector<int> refined_stages(const Graph& model, const Analysis& analysis,
                                const Slicing& slicing, const MicrobatchCosts& measured) {
  return Refinement(model, analysis, slicing, measured).run();
}

}  // namespace penstock
