#include "planner/frontier.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock {

int64_t whole_nanoseconds(double seconds) {
  if (!(seconds < 9e9)) return std::numeric_limits<int64_t>::max();
  return std::llround(seconds * 1e9);
}

KeyRank key_rank(double step_s, int64_t peak_bytes, SplitSearch::Objective objective) {
  const int64_t step = whole_nanoseconds(step_s);
  return objective == SplitSearch::Objective::step ? KeyRank(step, peak_bytes)
                                                   : KeyRank(peak_bytes, step);
}

Frontier::Frontier(const SplitSpace& space, const SplitSearch& search)
    : space_(space), search_(search) {
  if (space.time.ranks() <= space.time.units()) push(Node{.left = space.time.ranks()}, nullptr);
}

double Frontier::least(const Node& node) const {
  return node.sharp ? node.bound_s : space_.time.least(node.prefix, node.begin, node.left);
}

int64_t Frontier::least_memory(const Node& node) const {
  return std::max(node.memory, space_.memory.suffix(node.begin, node.left));
}

std::vector<int> Frontier::begins(int32_t node) const {
  std::vector<int> result;
  if (nodes_[node].left > 0) result.push_back(nodes_[node].begin);
  for (; nodes_[node].parent >= 0; node = nodes_[node].parent)
    result.push_back(nodes_[nodes_[node].parent].begin);
  std::reverse(result.begin(), result.end());
  return result;
}

bool Frontier::Later::operator()(const Entry& a, const Entry& b) const {
  if (a.rank != b.rank) return a.rank > b.rank;
  const std::vector<int> x = frontier->begins(a.node), y = frontier->begins(b.node);
  const auto [p, q] = std::mismatch(x.begin(), x.end(), y.begin(), y.end());
  return p != x.end() && q != y.end() ? *p > *q : x.size() < y.size();
}

bool Frontier::loses(const std::vector<int>& incumbent) const {
  const int32_t node = queue_.top().node;
  const std::vector<int> known = begins(node);
  const auto [mine, theirs] = std::mismatch(known.begin(), known.end(), incumbent.begin());
  return mine != known.end() ? *mine > *theirs : nodes_[node].left == 0;
}

std::optional<std::vector<int>> Frontier::step(const KeyRank* incumbent) {
  const int32_t at = queue_.top().node;
  queue_.pop();
  Node& node = nodes_[at];
  if (node.left > 0) {
    open(at, incumbent);
    return std::nullopt;
  }
  if (node.sharp) return begins(at);
  node.bound_s = std::max(least(node), space_.time.split(begins(at)));
  node.sharp = true;
  enqueue(at, incumbent);
  return std::nullopt;
}

void Frontier::open(int32_t at, const KeyRank* incumbent) {
  const Node node = nodes_[at];  // a copy: pushing moves the nodes
  const int units = space_.time.units();
  const int first = node.left == 1 ? units : node.begin + 1;
  for (int end = first; end <= units - node.left + 1; ++end) {
    Node next;
    next.prefix = space_.time.extend(node.prefix, node.begin, end, node.left);
    next.memory = std::max(node.memory, space_.memory.stage(node.begin, end, node.left));
    next.parent = at;
    next.begin = end;
    next.left = node.left - 1;
    push(next, incumbent);
  }
}

void Frontier::push(const Node& node, const KeyRank* incumbent) {
  nodes_.push_back(node);
  if (!enqueue(static_cast<int32_t>(nodes_.size()) - 1, incumbent)) nodes_.pop_back();
}

bool Frontier::enqueue(int32_t at, const KeyRank* incumbent) {
  const int64_t memory = least_memory(nodes_[at]);
  if (memory > search_.memory_limit) return false;
  const KeyRank rank =
      key_rank(least(nodes_[at]) * (1 - bound_rounding), memory, search_.objective);
  if (incumbent && rank > *incumbent) return false;
  queue_.push({rank, at});
  return true;
}

}  // namespace penstock
