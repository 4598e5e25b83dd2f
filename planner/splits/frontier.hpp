// The open splits of one space, best first: a tree whose nodes are splits of which the first stages
// are known. When nodes are many, all of the best node's splits are gone through before the next.
// Part of search.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

#include "planner/open/open_splits.hpp"
#include "planner/splits/split_space.hpp"

namespace penstock {

/// Holds pointers to itself: never moved.
class Frontier : public OpenSplits {
 public:
  /// Both outlive it.
  Frontier(const SplitSpace& space, const SplitOrder& order);
  Frontier(const Frontier&) = delete;
  Frontier& operator=(const Frontier&) = delete;

  bool empty() const override { return queue_.empty() && dive_.empty(); }
  SplitRank top() const override { return best().rank; }
  double bound_s() const override { return nodes_[at(best().node)].bound_s; }
  bool loses(const std::vector<int>& incumbent) const override;
  std::optional<std::vector<int>> step(const SplitRank* incumbent) override;
  int64_t effort() const override {
    return looked_at_ * node_effort_ + sharpened_ * space_.split_effort();
  }
  int64_t kept() const override { return static_cast<int64_t>(nodes_.size()); }
  void keep_few() override {
    if (!few_) few_ = nodes_.size();
  }

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

  /// A node still to be looked at below the one where a dive began, with the number of nodes there
  /// were when its parent had been opened.
  struct Deep {
    Entry entry;
    size_t nodes;
  };

  static size_t at(int32_t node) { return static_cast<size_t>(node); }
  const Entry& best() const { return dive_.empty() ? queue_.top() : dive_top_; }
  Entry take_next();
  std::vector<int> begins(int32_t node) const;
  SplitSpace::Prefix known(int32_t node) const;
  void open(int32_t node, const SplitRank* incumbent);
  void push(const Node& node, const SplitRank* incumbent);
  bool enqueue(int32_t node, const SplitRank* incumbent);

  const SplitSpace& space_;
  const SplitOrder& order_;
  const int64_t node_effort_;
  int64_t looked_at_ = 0, sharpened_ = 0;
  std::vector<Node> nodes_;  // parents stay
  std::priority_queue<Entry, std::vector<Entry>, Later> queue_{Later{this}};
  std::optional<size_t> few_;  // how many nodes were kept when they were to be few
  std::vector<Deep> dive_;     // the best of the deepest last
  Entry dive_top_{};           // where it began: none of its splits is better
};

}  // namespace penstock
