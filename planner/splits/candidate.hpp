// One space while it is searched: what the search knows of it, and how it goes on.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "planner/splits/search.hpp"

namespace penstock {

/// One space while it is searched.
class Candidate {
 public:
  Candidate(const SearchSpace& space, const SplitSearch& search) : space_(space), search_(search) {
    result.bound_s = space.bound_s;
    result.bytes = space.bytes;
  }

  bool closed() const { return result.opened && (!frontier_ || frontier_->empty()); }
  KeyRank top() const {
    return frontier_ ? frontier_->top()
                     : bound_rank(space_.weight * space_.bound_s, space_.bytes, search_.objective);
  }
  double bound_s() const {
    return frontier_ ? std::max(frontier_->bound_s(), space_.bound_s) : space_.bound_s;
  }
  bool loses(const std::vector<int>& incumbent) const {
    return frontier_ && frontier_->loses(incumbent);
  }

  int64_t memory_limit() const { return space_.memory_limit; }
  double guess_s() const { return space_.weight * space_.guess_s; }
  size_t group() const { return space_.group; }
  double weighted(double step_s) const { return space_.weight * step_s; }
  /// Its many splits are followed when every other space has been looked into.
  bool waits() const;
  KeyRank rank_of(const SplitOutcome& outcome) const {
    return key_rank(space_.weight * outcome.step_s, outcome.peak_bytes, search_.objective);
  }

  struct Step {
    std::vector<int> begins;  // empty: no split was simulated
    double bound_s = 0;
    SplitOutcome outcome;
  };
  /// Goes on until a split is simulated, or for one round's nodes.
  Step advance(const KeyRank* incumbent);
  /// Frees what no key better than `incumbent` can come from.
  void close() {
    frontier_.reset();
    opened_.reset();
    result.opened = true;
  }

  SearchResult::Space result;
  int64_t effort = 0;

 private:
  Step simulated(const std::vector<int>& begins);
  std::vector<int> proposal() const;
  void open();

  const SearchSpace& space_;
  const SplitSearch& search_;
  std::unique_ptr<OpenSpace> opened_;
  std::unique_ptr<Frontier> frontier_;
};

}  // namespace penstock
