// The open splits of one space in the order of their longest paths, where few edges of its program
// cross a cut: parts of the first stages (chain_part.hpp) that no others beat are tabulated, and
// splits are then followed from the last stage on, by the longest path with the best of these.
#pragma once

#include <memory>
#include <queue>
#include <tuple>
#include <vector>

#include "planner/open/chain_part.hpp"
#include "planner/open/open_splits.hpp"
#include "planner/open/part_bound.hpp"
#include "planner/paths/box_bound.hpp"
#include "planner/paths/split_box.hpp"

namespace penstock {

class PartTree : public OpenSplits {
 public:
  /// No split of the box takes less than `least`. Those outside of it are not looked for;
  /// `mixture`: that bounds them about best.
  PartTree(std::shared_ptr<const ProgramPaths> paths, SplitBox box, SplitNeeds least,
           const BoxBound::PathMixture& mixture, const SplitOrder& order);
  /// Do few enough edges cross, and fits whatever ranks hold?
  static bool applies_to(const ProgramPaths& paths);

  /// Not before it gives splits.
  bool tabulated() const { return next_stage_ + 1 >= stages(); }
  /// The table grew too long: it finds nothing.
  bool failed() const { return numbers_ > most_numbers; }
  bool empty() const override { return queue_.empty(); }
  SplitRank top() const override { return queue_.top()->rank; }
  double bound_s() const override { return queue_.top()->bound_s; }
  bool loses(const std::vector<int>&) const override { return false; }
  std::optional<std::vector<int>> step(const SplitRank* incumbent) override;
  int64_t effort() const override { return work_ / work_per_effort; }
  int64_t kept() const override { return numbers_ / numbers_per_node; }

 private:
  /// Steps of following paths and comparisons of parts for an effort of one; numbers in the memory
  /// of a node.
  static constexpr int64_t work_per_effort = 140, numbers_per_node = 20;
  static constexpr int64_t most_numbers = 20'000'000;

  struct Node {
    std::vector<int> begins;  // of the stages from the first that is known
    ChainPart part;           // these stages
    double bound_s;
    SplitRank rank;
    int64_t number;
  };
  using NodePointer = std::shared_ptr<Node>;
  struct Later {
    bool operator()(const NodePointer& a, const NodePointer& b) const {
      return std::tie(a->rank, a->number) > std::tie(b->rank, b->number);
    }
  };
  /// Parts of the first stages, by the unit behind them.
  using Table = std::vector<std::vector<ChainPart>>;

  int stages() const { return paths_->times().stages(); }
  void tabulate(double most_s);
  void add(std::vector<ChainPart>& parts, ChainPart part, const PartBorder& border);
  void expand(const Node& node, const SplitRank* incumbent);
  double best_s(const ChainPart& last, int cut, int unit);
  void enqueue(Node node, const SplitRank* incumbent);

  const std::shared_ptr<const ProgramPaths> paths_;
  const StagedPaths staged_;
  const SplitBox box_;
  const SplitNeeds least_;
  const SplitOrder order_;
  double more_s_ = 0;  // that a split may take for having the part that beats its own
  std::vector<PartBorder> firsts_, lasts_;                    // by the cut
  std::vector<PartMeeting> firsts_grow_, lasts_grow_, meet_;  // by the stage, by the cut
  std::optional<PartBound> bound_;
  std::vector<Table> tables_;           // by the cut behind
  int next_stage_ = 0, next_unit_ = 0;  // to tabulate
  int64_t work_ = 0, numbers_ = 0, made_ = 0;
  std::priority_queue<NodePointer, std::vector<NodePointer>, Later> queue_;
};

}  // namespace penstock
