#include "backend/stage/recipe/chains.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "graph/operators/facts.hpp"

namespace penstock {
namespace {

/// Does it convert one floating-point type into another?
bool changes_precision(const Graph& graph, const Operator& op) {
  const auto reads = op.reads();
  return std::ranges::any_of(op.outputs, [&](ValueId out) {
    return out >= 0 && std::ranges::any_of(reads, [&](ValueId in) {
             const DType from = graph.values[index(in)].dtype;
             return is_floating(from) && from != graph.values[index(out)].dtype;
           });
  });
}

/// The number of operators that lead to each value that may be part of a step chain.
std::map<ValueId, int> chain_lengths(const Graph& graph, const Analysis& analysis,
                                     const Aliases& aliases,
                                     const std::vector<PreparedOperator>& operators,
                                     const std::vector<ValueRole>& roles) {
  std::map<ValueId, int> lengths;
  std::set<ValueId> stay;
  for (const PreparedOperator& prepared : operators) {
    const Operator& op = prepared.op();
    int longest = 0;
    bool stays = changes_precision(graph, op);
    for (const ValueId v : op.reads()) {
      longest = std::max(longest, lengths.contains(v) ? lengths[v] : 0);
      stays = stays || stay.contains(v);
    }
    for (const ValueId v : op.outputs) {
      if (v < 0 || roles[index(v)] != ValueRole::microbatch_chain) continue;
      if (stays || aliases.changed(v))
        stay.insert(v);
      else if (analysis.parameter_derived[index(v)]) {
        lengths[v] = longest + (is_view(op) && longest > 0 ? 0 : 1);
      }
    }
  }
  return lengths;
}

}  // namespace

void mark_step_chains(const Graph& graph, const Analysis& analysis, const Aliases& aliases,
                      const std::vector<PreparedOperator>& operators,
                      std::vector<ValueRole>& roles) {
  const std::map<ValueId, int> lengths = chain_lengths(graph, analysis, aliases, operators, roles);
  std::set<ValueId> feeds_longer;
  for (auto last = operators.rbegin(); last != operators.rend(); ++last) {
    const PreparedOperator& prepared = *last;
    const auto marked = [&](ValueId v) {
      const auto length = lengths.find(v);
      return length != lengths.end() && (length->second >= 2 || feeds_longer.contains(v));
    };
    if (!std::ranges::any_of(prepared.op().outputs, marked)) continue;
    for (const ValueId v : prepared.op().outputs) {
      if (v >= 0) roles[index(v)] = ValueRole::step_chain;
    }
    for (const ValueId v : prepared.op().reads()) feeds_longer.insert(v);
  }
}

}  // namespace penstock
