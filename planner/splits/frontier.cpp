#include "planner/splits/frontier.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock {

int64_t whole_nanoseconds(double seconds) {
  if (!(seconds < 9e9)) return std::numeric_limits<int64_t>::max();
  return std::llround(seconds * 1e9);
}

KeyRank key_rank(double step_s, int64_t peak_bytes, SearchObjective objective) {
  const int64_t step = whole_nanoseconds(step_s);
  return objective == SearchObjective::step ? KeyRank(step, peak_bytes) : KeyRank(peak_bytes, step);
}

KeyRank bound_rank(double bound_s, int64_t min_bytes, SearchObjective objective) {
  return key_rank(bound_s * (1 - bound_rounding), min_bytes, objective);
}

Frontier::Frontier(const SplitSpace& space, SearchObjective objective, int64_t memory_limit,
                   double weight)
    : space_(space), objective_(objective), memory_limit_(memory_limit), weight_(weight) {
  if (space.stages() > space.units()) return;
  push({.bound_s = space.min_s(), .bytes = space.min_bytes(), .left = space.stages()}, nullptr);
}

std::vector<int> Frontier::begins(int32_t node) const {
  std::vector<int> result;
  if (nodes_[at(node)].left > 0) result.push_back(nodes_[at(node)].begin);
  for (; nodes_[at(node)].parent >= 0; node = nodes_[at(node)].parent)
    result.push_back(nodes_[at(nodes_[at(node)].parent)].begin);
  std::reverse(result.begin(), result.end());
  return result;
}

/// Followed again from the first stage on: a node with all of it would be large.
SplitSpace::Prefix Frontier::known(int32_t node) const {
  std::vector<int> begins = this->begins(node);
  SplitSpace::Prefix known;
  for (size_t stage = 0; stage + 1 < begins.size(); ++stage) {
    known = space_.extend(known, begins[stage], begins[stage + 1],
                          space_.stages() - static_cast<int>(stage));
  }
  return known;
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
  return mine != known.end() ? *mine > *theirs : nodes_[at(node)].left == 0;
}

std::optional<std::vector<int>> Frontier::step(const KeyRank* incumbent) {
  const int32_t best = queue_.top().node;
  queue_.pop();
  ++looked_at_;
  Node& node = nodes_[at(best)];
  if (node.left > 0) {
    open(best, incumbent);
    return std::nullopt;
  }
  if (node.sharp) return begins(best);
  node.bound_s = std::max(node.bound_s, space_.split_s(begins(best)));
  node.sharp = true;
  enqueue(best, incumbent);
  return std::nullopt;
}

void Frontier::open(int32_t parent, const KeyRank* incumbent) {
  const Node node = nodes_[at(parent)];  // a copy: pushing moves the nodes
  const SplitSpace::Prefix known = this->known(parent);
  for (const int end : space_.ends(node.begin, node.left)) {
    const SplitSpace::Prefix next = space_.extend(known, node.begin, end, node.left);
    const int left = node.left - 1;
    push({.bound_s = std::max(node.bound_s, space_.min_s(next, end, left)),
          .bytes = std::max(node.bytes, space_.min_bytes(next, end, left)),
          .parent = parent,
          .begin = end,
          .left = left},
         incumbent);
  }
}

void Frontier::push(const Node& node, const KeyRank* incumbent) {
  ++looked_at_;
  nodes_.push_back(node);
  if (!enqueue(static_cast<int32_t>(nodes_.size()) - 1, incumbent)) nodes_.pop_back();
}

bool Frontier::enqueue(int32_t node, const KeyRank* incumbent) {
  const int64_t memory = nodes_[at(node)].bytes;
  if (memory > memory_limit_) return false;
  const KeyRank rank = bound_rank(weight_ * nodes_[at(node)].bound_s, memory, objective_);
  if (incumbent && rank > *incumbent) return false;
  queue_.push({rank, node});
  return true;
}

}  // namespace penstock
