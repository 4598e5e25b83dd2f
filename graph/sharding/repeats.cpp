#include "graph/sharding/repeats.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

namespace penstock::sharding {
namespace {

/// So many nodes in a row are compared to find a stretch that may be one that was seen before.
constexpr OperatorId glance = 8;

/// Numbers from 0, the same for what is the same.
template <typename T>
class Numbers {
 public:
  int operator()(const T& key) {
    return known_.emplace(key, static_cast<int>(known_.size())).first->second;
  }

 private:
  std::map<T, int> known_;
};

std::vector<int> outline(const Problem& problem, const Node& node) {
  std::vector<int> outline{static_cast<int>(node.options.size()),
                           static_cast<int>(node.operands.size())};
  for (const auto* values : {&node.operands, &node.results})
    for (const ValueId value : *values)
      outline.push_back(value < 0 ? -1 : problem.choices_of[value]);
  return outline;
}

/// Values of two stretches of as many nodes, pair by pair.
class Pairing {
 public:
  Pairing(const Problem& problem, const Uses& uses, OperatorId first, OperatorId second)
      : problem_(problem), uses_(uses), first_(first), second_(second) {}

  bool pair(ValueId a, ValueId b) {
    const bool is_alike = problem_.choices_of[a] == problem_.choices_of[b] &&
                          problem_.pin[a] == problem_.pin[b] &&
                          problem_.is_parameter(a) == problem_.is_parameter(b) &&
                          (uses_.reads[a] > 1) == (uses_.reads[b] > 1) &&
                          end_of_use(a, first_) == end_of_use(b, second_);
    return is_alike && taken_.insert(b).second && pairs_.emplace(a, b).second;
  }
  bool read(ValueId a, ValueId b) {
    if (!problem_.varies[a] || !problem_.varies[b]) return problem_.varies[a] == problem_.varies[b];
    const auto found = pairs_.find(a);
    if (found != pairs_.end()) return found->second == b;
    return problem_.is_parameter(a) && pair(a, b);
  }
  bool give(ValueId a, ValueId b) {
    const auto varies = [&](ValueId value) { return value >= 0 && problem_.varies[value]; };
    return varies(a) == varies(b) && (!varies(a) || pair(a, b));
  }
  bool walk(const Node& a, const Node& b) {
    if (a.operands.size() != b.operands.size() || a.results.size() != b.results.size())
      return false;
    for (size_t i = 0; i < a.operands.size(); ++i)
      if (!read(a.operands[i], b.operands[i])) return false;
    for (size_t i = 0; i < a.results.size(); ++i)
      if (!give(a.results[i], b.results[i])) return false;
    return a.options == b.options;
  }
  std::map<ValueId, ValueId> pairs() && { return std::move(pairs_); }

 private:
  /// By nodes from `begin` on; all beyond the stretch are one.
  OperatorId end_of_use(ValueId value, OperatorId begin) const {
    return std::clamp(uses_.last[value] - begin, -1, second_ - first_);
  }

  const Problem& problem_;
  const Uses& uses_;
  const OperatorId first_, second_;
  std::map<ValueId, ValueId> pairs_;
  std::set<ValueId> taken_;
};

}  // namespace

std::optional<std::map<int, int>> same_decisions(const Frontier& first, const Frontier& second,
                                                 int64_t max_cost) {
  const int64_t dearer = second.states.front().cost - first.states.front().cost;
  std::map<std::vector<Held>, const State*> later;
  for (const State& state : second.states) later.emplace(state.held, &state);
  std::map<int, int> decisions;
  size_t found = 0;
  for (const State& state : first.states) {
    const auto like = later.find(state.held);
    if (like == later.end() && state.cost + dearer > max_cost) continue;
    if (like == later.end() || like->second->cost != state.cost + dearer) return std::nullopt;
    decisions[state.decision] = like->second->decision;
    ++found;
  }
  return found == second.states.size() ? std::optional(decisions) : std::nullopt;
}

Uses::Uses(const Problem& problem)
    : reads(problem.varies.size(), 0), last(problem.varies.size(), -1) {
  for (OperatorId node = 0; node < static_cast<OperatorId>(problem.nodes.size()); ++node)
    for (const ValueId value : problem.nodes[node].operands) {
      ++reads[value];
      last[value] = node;
    }
}

Repeats::Repeats(const Problem& problem, const Uses& uses) : problem_(problem), uses_(uses) {
  Numbers<std::vector<int>> outlines, stretches;
  std::vector<int> seen;
  for (const Node& node : problem.nodes) seen.push_back(outlines(outline(problem, node)));
  for (auto at = seen.begin(); at != seen.end(); ++at)
    kinds_.push_back(stretches({at, at + std::min<std::ptrdiff_t>(glance, seen.end() - at)}));
  count_.assign(kinds_.size(), 0);
  for (const int kind : kinds_) ++count_[kind];
}

std::optional<std::map<ValueId, ValueId>> Repeats::counterparts(
    OperatorId first, OperatorId second, const std::vector<ValueId>& in_use_at_first,
    const std::vector<ValueId>& in_use_at_second) const {
  const OperatorId count = second - first;
  if (second + count > static_cast<OperatorId>(problem_.nodes.size()) ||
      in_use_at_first.size() != in_use_at_second.size())
    return std::nullopt;
  Pairing pairing(problem_, uses_, first, second);
  for (size_t i = 0; i < in_use_at_first.size(); ++i)
    if (!pairing.pair(in_use_at_first[i], in_use_at_second[i])) return std::nullopt;
  for (OperatorId i = 0; i < count; ++i)
    if (!pairing.walk(problem_.nodes[first + i], problem_.nodes[second + i])) return std::nullopt;
  return std::move(pairing).pairs();
}

}  // namespace penstock::sharding
