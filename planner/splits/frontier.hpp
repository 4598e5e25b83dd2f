// The open splits of one space, best first: a tree whose nodes are splits of which the first stages
// are known. Part of search.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

#include "planner/splits/split_order.hpp"
#include "planner/splits/split_space.hpp"

namespace penstock {

/// Holds pointers to itself: never moved.
class Frontier {
 public:
  /// Both outlive it.
  Frontier(const SplitSpace& space, const SplitOrder& order);
  Frontier(const Frontier&) = delete;
  Frontier& operator=(const Frontier&) = delete;

  bool empty() const { return queue_.empty(); }
  /// No key of an open split is less.
  SplitRank top() const { return queue_.top().rank; }
  /// The bound of the best open split.
  double bound_s() const { return nodes_[at(queue_.top().node)].bound_s; }
  /// Is every open split certain to lose against one of this space with the rank `top()`?
  bool loses(const std::vector<int>& incumbent) const;
  /// Takes the best node: the begins of a split to simulate, or nothing after opening a node or
  /// sharpening its bound. Leaves out what ranks behind `incumbent`, which may be null.
  std::optional<std::vector<int>> step(const SplitRank* incumbent);
  /// Nodes that it has looked at so far.
  int64_t looked_at() const { return looked_at_; }
  /// Nodes that it keeps.
  int64_t kept() const { return static_cast<int64_t>(nodes_.size()); }

 private:
  struct Node {
    double bound_s = 0;
    int64_t bytes = 0;
    int32_t parent = -1;
    int32_t begin = 0;   // of the stage that comes next; units() when complete
    int32_t left = 0;    // stages still to come
    bool sharp = false;  // complete, and bound_s is its own
  };
  struct Entry {
    SplitRank rank;
    int32_t node;
  };
  /// Best rank first; then the split that comes first, the longer known the earlier, so that equal
  /// splits are followed to their end one by one.
  struct Later {
    const Frontier* frontier;
    bool operator()(const Entry& a, const Entry& b) const;
  };

  static size_t at(int32_t node) { return static_cast<size_t>(node); }
  std::vector<int> begins(int32_t node) const;
  SplitSpace::Prefix known(int32_t node) const;
  void open(int32_t node, const SplitRank* incumbent);
  void push(const Node& node, const SplitRank* incumbent);
  bool enqueue(int32_t node, const SplitRank* incumbent);

  const SplitSpace& space_;
  const SplitOrder& order_;
  int64_t looked_at_ = 0;
  std::vector<Node> nodes_;  // parents stay
  std::priority_queue<Entry, std::vector<Entry>, Later> queue_{Later{this}};
};

}  // namespace penstock
