// The open splits of one space, best first: a tree whose nodes are splits of which the first stages
// are known. Part of search.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "planner/search.hpp"

namespace penstock {

/// Bounds and simulations add the same numbers in another order: a few thousand additions, each off
/// by 2^-53 relative. This much less of a bound is safe.
constexpr double bound_rounding = 1e-12;

/// The unit in which steps are compared.
int64_t whole_nanoseconds(double seconds);

/// The two numbers that come first in a key: step in nanoseconds and peak memory, or the other way
/// round where memory is the objective.
using KeyRank = std::pair<int64_t, int64_t>;
KeyRank key_rank(double step_s, int64_t peak_bytes, SplitSearch::Objective objective);

/// Holds pointers to itself: never moved.
class Frontier {
 public:
  Frontier(const SplitSpace& space, const SplitSearch& search);
  Frontier(const Frontier&) = delete;
  Frontier& operator=(const Frontier&) = delete;

  bool empty() const { return queue_.empty(); }
  /// No key of an open split is less.
  KeyRank top() const { return queue_.top().rank; }
  /// Of the best open split.
  double bound_s() const { return least(nodes_[queue_.top().node]); }
  /// Is every open split certain to lose against one of this space with the rank `top()`?
  bool loses(const std::vector<int>& incumbent) const;
  /// Takes the best node: the begins of a split to simulate, or nothing after opening a node or
  /// sharpening its bound. Leaves out what ranks behind `incumbent`, which may be null.
  std::optional<std::vector<int>> step(const KeyRank* incumbent);

 private:
  struct Node {
    ChainBound::Prefix prefix;
    int64_t memory = 0;
    int32_t parent = -1;
    int32_t begin = 0;   // of the stage that comes next; units() when complete
    int32_t left = 0;    // stages still to come
    bool sharp = false;  // complete, and bound_s is its own
    double bound_s = 0;
  };
  struct Entry {
    KeyRank rank;
    int32_t node;
  };
  /// Best rank first; then the split that comes first, the longer known the earlier, so that equal
  /// splits are followed to their end one by one.
  struct Later {
    const Frontier* frontier;
    bool operator()(const Entry& a, const Entry& b) const;
  };

  double least(const Node& node) const;
  int64_t least_memory(const Node& node) const;
  std::vector<int> begins(int32_t node) const;
  void open(int32_t at, const KeyRank* incumbent);
  void push(const Node& node, const KeyRank* incumbent);
  bool enqueue(int32_t at, const KeyRank* incumbent);

  const SplitSpace& space_;
  const SplitSearch& search_;
  std::vector<Node> nodes_;  // parents stay
  std::priority_queue<Entry, std::vector<Entry>, Later> queue_{Later{this}};
};

}  // namespace penstock
