// The open splits of one space, best first: a tree whose nodes are splits of which the first stages
// are known. Part of search.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "planner/splits/split_space.hpp"

namespace penstock {

/// Bounds and simulations add the same numbers in another order: a few thousand additions, each off
/// by 2^-53 relative. This much less of a bound is safe.
constexpr double bound_rounding = 1e-12;

/// The unit in which steps are compared.
int64_t whole_nanoseconds(double seconds);

enum class SearchObjective { step, memory };

/// The two numbers that come first in a key: step in nanoseconds and peak memory, or the other way
/// round where memory is the objective.
using KeyRank = std::pair<int64_t, int64_t>;
KeyRank key_rank(double step_s, int64_t peak_bytes, SearchObjective objective);
/// The rank of a split that is bounded by that many seconds.
KeyRank bound_rank(double bound_s, int64_t min_bytes, SearchObjective objective);

/// Holds pointers to itself: never moved.
class Frontier {
 public:
  /// Seconds compare times `weight`.
  Frontier(const SplitSpace& space, SearchObjective objective, int64_t memory_limit,
           double weight = 1);
  Frontier(const Frontier&) = delete;
  Frontier& operator=(const Frontier&) = delete;

  bool empty() const { return queue_.empty(); }
  /// No key of an open split is less.
  KeyRank top() const { return queue_.top().rank; }
  /// The bound of the best open split.
  double bound_s() const { return nodes_[at(queue_.top().node)].bound_s; }
  /// Is every open split certain to lose against one of this space with the rank `top()`?
  bool loses(const std::vector<int>& incumbent) const;
  /// Takes the best node: the begins of a split to simulate, or nothing after opening a node or
  /// sharpening its bound. Leaves out what ranks behind `incumbent`, which may be null.
  std::optional<std::vector<int>> step(const KeyRank* incumbent);
  /// Nodes that it has looked at so far.
  int64_t looked_at() const { return looked_at_; }

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
    KeyRank rank;
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
  void open(int32_t node, const KeyRank* incumbent);
  void push(const Node& node, const KeyRank* incumbent);
  bool enqueue(int32_t node, const KeyRank* incumbent);

  const SplitSpace& space_;
  const SearchObjective objective_;
  const int64_t memory_limit_;
  const double weight_;
  int64_t looked_at_ = 0;
  std::vector<Node> nodes_;  // parents stay
  std::priority_queue<Entry, std::vector<Entry>, Later> queue_{Later{this}};
};

}  // namespace penstock
