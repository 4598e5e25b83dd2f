#include "graph/sharding/saved.hpp"

#include <algorithm>

#include "graph/operators/facts.hpp"
#include "graph/operators/table.hpp"

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

}  // namespace

std::vector<Saved> saved_values(const Graph& graph, const std::vector<bool>& has_gradient) {
  std::vector<Saved> saved(graph.values.size());
  std::vector<ValueId> root(graph.values.size());
  for (ValueId value = 0; value < static_cast<ValueId>(root.size()); ++value) root[value] = value;
  for (const Operator& op : graph.operators) {
    const std::vector<ValueId> reads = op.reads();
    for (const ValueId value : op.outputs)
      if (value >= 0 && is_view(op) && !reads.empty()) {
        root[value] = root[reads.front()];
        saved[value].is_view = true;
      }
    if (!has_backward(op, has_gradient)) continue;
    for (const ValueId value : saved_by(op, has_gradient))
      if (value >= 0) saved[root[value]].is_saved = true;
  }
  for (ValueId value = 0; value < static_cast<ValueId>(root.size()); ++value)
    saved[value].is_saved = saved[root[value]].is_saved;
  return saved;
}

}  // namespace penstock::sharding
