#include "graph/sharding/saved.hpp"

#include <algorithm>
#include <numeric>

#include "graph/operators/facts.hpp"
#include "graph/operators/table.hpp"
#include "graph/sharding/collectives.hpp"

namespace penstock::sharding {
namespace {

using Keeps = OperatorTraits::Saved;

/// Each factor for the gradients of the others; what is multiplied by a number not.
std::vector<ValueId> needed_factors(const std::vector<ValueId>& reads,
                                    const std::vector<bool>& has_gradient) {
  std::vector<ValueId> needed;
  for (const ValueId factor : reads)
    if (std::ranges::any_of(reads,
                            [&](ValueId other) { return other != factor && has_gradient[other]; }))
      needed.push_back(factor);
  return needed;
}

std::vector<ValueId> saved_by(const Operator& op, const std::vector<bool>& has_gradient) {
  const std::vector<ValueId> reads = op.reads();
  const std::vector<ValueId> first(reads.begin(),
                                   reads.begin() + std::min<size_t>(reads.size(), 1));
  switch (traits_of(op).saved) {
    case Keeps::nothing: return {};
    case Keeps::operands:
    case Keeps::divisor: return reads;
    case Keeps::mask:  // the factors have its size
    case Keeps::result: return {op.outputs.front()};
    case Keeps::factors: return needed_factors(reads, has_gradient);
    case Keeps::norm:
    case Keeps::group_norm:
    case Keeps::positions: return first;
    case Keeps::attention: {
      std::vector<ValueId> all = reads;
      all.push_back(op.outputs.front());
      return all;
    }
  }
  return {};
}

bool has_backward(const Operator& op, const std::vector<bool>& has_gradient) {
  return !op.reads().empty() && std::ranges::any_of(op.outputs, [&](ValueId value) {
    return value >= 0 && has_gradient[value];
  });
}

/// By value the one whose memory it lies in.
std::vector<ValueId> roots(const Graph& graph) {
  std::vector<ValueId> root(graph.values.size());
  std::iota(root.begin(), root.end(), 0);
  for (const Operator& op : graph.operators) {
    const std::vector<ValueId> reads = op.reads();
    if (!is_view(op) || reads.empty()) continue;
    for (const ValueId value : op.outputs)
      if (value >= 0) root[value] = root[reads.front()];
  }
  return root;
}

}  // namespace

std::vector<Saved> saved_values(const Graph& graph, const std::vector<bool>& has_gradient) {
  std::vector<Saved> saved(graph.values.size());
  const std::vector<ValueId> root = roots(graph);
  for (const Operator& op : graph.operators) {
    if (!has_backward(op, has_gradient)) continue;
    for (const ValueId value : saved_by(op, has_gradient))
      if (value >= 0) saved[root[value]].is_saved = true;
  }
  for (ValueId value = 0; value < static_cast<ValueId>(root.size()); ++value)
    saved[value] = {saved[root[value]].is_saved, root[value] != value};
  return saved;
}

std::vector<GatheredIn> gathered_in(const Graph& local, const Analysis& analysis) {
  std::vector<GatheredIn> found(local.operators.size());
  const std::vector<ValueId> root = roots(local);
  const auto is_trained = [&](ValueId value) {
    return analysis.requires_grad[value] &&
           (local.values[value].kind == Value::Kind::tensor || analysis.parameter_derived[value]);
  };
  for (const Operator& op : local.operators) {
    if (!has_backward(op, analysis.requires_grad) || gathers_again(op)) continue;
    const bool weight = std::ranges::any_of(op.reads(), is_trained);
    const bool input = !weight || traits_of(op).saved != Keeps::factors;
    for (const ValueId value : saved_by(op, analysis.requires_grad)) {
      const OperatorId maker = value < 0 ? -1 : local.values[root[value]].producer;
      if (maker < 0 || !gathers_again(local.operators[maker])) continue;
      found[maker].input |= input;
      found[maker].weight |= weight;
    }
  }
  return found;
}

}  // namespace penstock::sharding
