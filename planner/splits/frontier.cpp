#include "planner/splits/frontier.hpp"

#include <algorithm>
#include <tuple>

namespace penstock {

namespace {

constexpr int stages_per_effort = 16;

}  // namespace

/// A node is bounded, and told apart from others, stage by stage.
Frontier::Frontier(const SplitSpace& space, const SplitOrder& order)
    : space_(space), order_(order), node_effort_(1 + space.stages() / stages_per_effort) {
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
  const auto& nodes = frontier->nodes_;
  const auto up = [&](int32_t& node) { node = nodes[at(node)].parent; };
  const auto left = [&](int32_t node) { return nodes[at(node)].left; };
  int32_t x = a.node, y = b.node;
  while (left(x) < left(y)) up(x);
  while (left(y) < left(x)) up(y);
  if (x == y) return left(a.node) > left(b.node);
  while (nodes[at(x)].parent != nodes[at(y)].parent) {
    up(x);
    up(y);
  }
  return nodes[at(x)].begin > nodes[at(y)].begin;
}

bool Frontier::loses(const std::vector<int>& incumbent) const {
  if (!dive_.empty()) return false;  // of those below one node some may win
  const int32_t node = queue_.top().node;
  const std::vector<int> known = begins(node);
  const auto [mine, theirs] = std::mismatch(known.begin(), known.end(), incumbent.begin());
  return mine != known.end() ? *mine > *theirs : nodes_[at(node)].left == 0;
}

Frontier::Entry Frontier::take_next() {
  if (!dive_.empty()) {
    const Deep deepest = dive_.back();
    dive_.pop_back();
    nodes_.resize(deepest.nodes);
    return deepest.entry;
  }
  const Entry best = queue_.top();
  queue_.pop();
  if (few_) {
    nodes_.resize(*few_);
    dive_top_ = best;
  }
  return best;
}

std::optional<std::vector<int>> Frontier::step(const SplitRank* incumbent) {
  const auto [rank, best] = take_next();
  if (incumbent && rank > *incumbent) return std::nullopt;
  ++looked_at_;
  Node& node = nodes_[at(best)];
  if (node.left > 0) {
    open(best, incumbent);
    return std::nullopt;
  }
  if (node.sharp) return begins(best);
  node.bound_s = std::max(node.bound_s, space_.split_s(begins(best)));
  node.sharp = true;
  ++sharpened_;
  enqueue(best, incumbent);
  return std::nullopt;
}

void Frontier::open(int32_t parent, const SplitRank* incumbent) {
  const Node node = nodes_[at(parent)];  // a copy: pushing moves the nodes
  const SplitSpace::Prefix known = this->known(parent);
  const auto deeper = static_cast<std::ptrdiff_t>(dive_.size());
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
  const auto later = [later = Later{this}](const Deep& a, const Deep& b) {
    return later(a.entry, b.entry);
  };
  std::sort(dive_.begin() + deeper, dive_.end(), later);
  for (auto deep = dive_.begin() + deeper; deep != dive_.end(); ++deep) deep->nodes = nodes_.size();
}

void Frontier::push(const Node& node, const SplitRank* incumbent) {
  ++looked_at_;
  nodes_.push_back(node);
  if (!enqueue(static_cast<int32_t>(nodes_.size()) - 1, incumbent)) nodes_.pop_back();
}

bool Frontier::enqueue(int32_t node, const SplitRank* incumbent) {
  const auto& [bound_s, bytes] = std::tie(nodes_[at(node)].bound_s, nodes_[at(node)].bytes);
  if (!order_.may_admit(bound_s, bytes)) return false;
  const SplitRank rank = order_.bound(bound_s, bytes);
  if (incumbent && rank > *incumbent) return false;
  if (few_)
    dive_.push_back({{rank, node}, nodes_.size()});
  else
    queue_.push({rank, node});
  return true;
}

}  // namespace penstock
