// The open splits of one space as boxes (box_bound.hpp), best first: for spaces with so many that
// bounds of their first stages leave all of them open. A box is divided by how many units ranks
// have, and where these are whole by how many stages have. Where few edges of the program cross a
// cut, a table for all splits (part_tree.hpp) is made in turns with that, and takes the place of
// the boxes when it is ready.
#pragma once

#include <functional>
#include <memory>
#include <queue>
#include <set>
#include <tuple>
#include <vector>

#include "planner/open/open_splits.hpp"
#include "planner/open/part_tree.hpp"
#include "planner/paths/box_bound.hpp"

namespace penstock {

class BoxTree : public OpenSplits {
 public:
  /// No split of the whole space takes less than `least`. Boxes are bounded on so many threads, and
  /// are the same for any number; none once these ask `stop`, which may be empty, and it says so.
  BoxTree(std::shared_ptr<const ProgramPaths> paths, SplitNeeds least, const SplitOrder& order,
          int threads, std::function<bool()> stop = {});

  bool empty() const override { return by_parts() ? parts_->empty() : queue_.empty(); }
  SplitRank top() const override { return by_parts() ? parts_->top() : queue_.top()->rank; }
  double bound_s() const override { return by_parts() ? parts_->bound_s() : queue_.top()->bound_s; }
  bool loses(const std::vector<int>&) const override { return false; }
  /// Also gives splits near the best mixture of a box, each of which may lie outside of it.
  std::optional<std::vector<int>> step(const SplitRank* incumbent) override;
  bool still_open() const override { return near_; }
  int64_t effort() const override { return effort_ + (parts_ ? parts_->effort() : 0); }
  int64_t kept() const override;

 private:
  struct Node {
    SplitBox box;
    double bound_s = 0;
    SplitRank rank;
    int64_t number = 0;  // in the order in which they were made
    bool bounded = false;
    int64_t most_work = 0;                              // of the solver for its next bound
    std::shared_ptr<const BoxBound::Bound> mixture;     // its own, or until there is one the
                                                        // parent's; null of the first
    std::shared_ptr<const BoxBound::Bound> ahead = {};  // its own, found before its turn
  };
  using NodePointer = std::shared_ptr<Node>;
  struct Later {
    bool operator()(const NodePointer& a, const NodePointer& b) const {
      return std::tie(a->rank, a->number) > std::tie(b->rank, b->number);
    }
  };

  BoxBound::Aim aim(const SplitRank* incumbent) const;
  void bound_ahead(const NodePointer& next, const SplitRank* incumbent);
  std::optional<std::vector<int>> bound(NodePointer node, const SplitRank* incumbent);
  void bound_full_ranks(Node& node, double enough_s);
  std::optional<std::vector<int>> near(const Node& node, double enough_s);
  std::optional<std::vector<int>> once(std::vector<int> begins);
  bool by_parts() const { return parts_ && parts_->tabulated(); }
  void divide(const Node& node, const SplitRank* incumbent);
  void add(SplitBox box, const Node& parent, const SplitRank* incumbent);
  void enqueue(NodePointer node, const SplitRank* incumbent);

  const BoxBound bounds_;
  DivisionChoice choice_;
  const SplitNeeds least_;
  const SplitOrder order_;
  const int threads_;
  const std::function<bool()> stop_;
  int64_t numbers_ = 0, effort_ = 0, round_effort_;
  std::set<std::vector<int>> given_;
  bool near_ = false;  // the last split that was given
  std::unique_ptr<PartTree> parts_;
  std::priority_queue<NodePointer, std::vector<NodePointer>, Later> queue_;
};

}  // namespace penstock
