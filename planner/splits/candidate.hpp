// One space while it is searched: what the search knows of it, and how it goes on.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "planner/paths/walk.hpp"
#include "planner/recompute/annealing.hpp"
#include "planner/splits/neighbours.hpp"
#include "planner/splits/search.hpp"

namespace penstock {

/// One space while it is searched.
class Candidate {
 public:
  /// Both outlive it.
  Candidate(const SearchSpace& space, const SplitSearch& search)
      : space_(space), search_(search), order_(order_of(space, search)) {
    result.bound_s = space.bound_s;
    result.bytes = space.bytes;
  }

  bool closed() const {
    return begun_ && unsettled_.empty() && (!open_splits_ || open_splits_->empty());
  }
  SplitRank top() const;
  double bound_s() const;
  bool loses(const std::vector<int>& incumbent) const {
    return unsettled_.empty() && open_splits_ && open_splits_->loses(incumbent);
  }

  const SplitOrder& order() const { return order_; }
  double guess_s() const { return space_.weight * space_.guess_s; }
  size_t group() const { return space_.group; }
  /// Its many splits, of which there are no paths, are followed when every other space has been
  /// looked into.
  bool waits() const;
  SplitRank rank_of(const SplitOutcome& outcome) const {
    return order_.rank(outcome.step_s, outcome.peak_bytes);
  }

  struct Step {
    std::vector<int> begins;  // empty: no split was simulated
    double bound_s = 0;
    SplitOutcome outcome;
  };
  /// Goes on until a split is simulated, for one round's nodes, or until the search is to stop.
  Step advance(const SplitRank* incumbent);
  void rest() {
    if (opened_) opened_->rest();
  }
  /// Frees what no key better than `incumbent` can come from.
  void close() {
    begun_ = true;
    open_splits_.reset();
    neighbours_.reset();
    walk_.reset();
    annealings_.clear();
    unsettled_ = {};
    walks_left_ = 0;
    paths_.reset();
    program_.reset();
    opened_.reset();
  }

  /// Are its open splits boxes, whose bounds take long?
  bool boxed() const { return boxed_; }
  /// Does its recompute wait for a first annealing, or is that going on?
  bool awaits_annealing() const;
  /// The first annealing does not wait for boxes.
  void anneal_soon();
  /// The best split that it has climbed or walked to, while it goes on.
  std::optional<SplitRank> climbing() const;

  /// The least that a split of it may take with other recompute than it was simulated with, of
  /// which no more can be said; infinite where there is none.
  double left_s() const { return left_s_; }

  int64_t kept() const { return open_splits_ ? open_splits_->kept() : 0; }
  void keep_few() {
    if (open_splits_) open_splits_->keep_few();
  }

  SearchResult::Space result;
  int64_t effort = 0;

 private:
  /// The effort of looking for the best recompute of a split, at first.
  static constexpr int64_t first_recompute = 50'000;
  /// A split that was simulated and may take less with other recompute.
  struct Unsettled {
    double bound_s;
    std::vector<int> begins;
    int64_t effort;  // of looking for it
    auto operator<=>(const Unsettled&) const = default;
  };
  bool has_many() const;
  bool stopped() const { return search_.stop && search_.stop(); }
  bool fits(const Step& step) const { return step.outcome.peak_bytes <= order_.max_bytes; }
  bool is_slower(const std::vector<int>& begins, const SplitRank* incumbent);
  Step simulated(const std::vector<int>& begins, const SplitRank* incumbent,
                 int64_t effort_of_recompute = first_recompute,
                 const std::vector<int>& choices = {});
  Step proposed(const std::vector<int>& begins, const SplitRank* incumbent);
  std::optional<std::vector<int>> next_neighbour();
  Step climb(const SplitRank* incumbent);
  Step walked(const SplitRank* incumbent);
  void settle(const Step& step, int64_t effort_of_recompute);
  Step settled(const SplitRank* incumbent);
  bool anneals(const SplitRank* incumbent) const;
  std::vector<std::vector<int>> starts() const;
  Step annealed(const SplitRank* incumbent);
  Walk::Judge judge() const;
  void reach(const Step& step);
  void follow_boxes();
  Step followed(const SplitRank* incumbent);
  void open();

  const SearchSpace& space_;
  const SplitSearch& search_;
  const SplitOrder order_;
  bool begun_ = false;
  std::unique_ptr<OpenSpace> opened_;
  std::unique_ptr<OpenSplits> open_splits_;
  std::optional<int> next_proposal_;           // absent: one fits, or there are no more
  std::optional<Neighbours> neighbours_;       // of the best split yet, until none is better
  std::shared_ptr<const ProgramPaths> paths_;  // until their boxes are followed
  std::optional<std::shared_ptr<const ProgramPaths>> program_;  // absent: not asked for yet
  std::vector<int> start_;                                      // of walks
  std::optional<Walk> walk_;
  int walks_left_ = 0, tries_ = 0;  // walks to be taken, and tries left of this one
  bool boxed_ = false;
  std::vector<Annealing> annealings_;                 // those that go on
  int64_t annealing_effort_ = 0, annealing_due_ = 0;  // of each of them; with that of boxes
  int64_t boxes_effort_ = 0;                          // since the last ones
  uint32_t seeds_ = 0;                                // used up
  std::priority_queue<Unsettled, std::vector<Unsettled>, std::greater<>> unsettled_;
  double left_s_ = std::numeric_limits<double>::infinity();
  struct Reached {
    std::vector<int> begins;
    double step_s = 0;
    SplitRank rank;
  };
  Reached reached_;  // the best of climbs and walks
};

}  // namespace penstock
