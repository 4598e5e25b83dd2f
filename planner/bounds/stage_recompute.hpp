// The least that the backward of a stage takes longer because it recomputes what does not fit.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "planner/bounds/chain_memory.hpp"
#include "planner/bounds/layer_choices.hpp"

namespace penstock {

/// For one thread: it keeps what it has found.
class StageRecompute {
 public:
  /// `units`: what each may free of one microbatch, in seconds of one backward. `first`: microbatch
  /// 0 takes so many times as long.
  StageRecompute(const std::vector<LayerChoices>& units, std::shared_ptr<const StageTable> bytes,
                 int64_t limit_bytes, double first);

  /// For a stage that holds so many microbatches. Exact while not too many kinds of stages were
  /// asked for, later by the linear relaxation. What its units cannot free one by one takes all of
  /// them, at once.
  double seconds(int begin, int end, int held) const;
  double first() const { return first_; }

 private:
  double apart(int begin, int end, int held, int64_t excess) const;
  double longest_s(int begin, int end) const {
    return longest_s_[static_cast<size_t>(end)] - longest_s_[static_cast<size_t>(begin)];
  }
  double least(int begin, int end, int64_t bytes) const;
  double relaxed(int begin, int end, int64_t bytes) const;

  /// A step along the hull of a unit's choices.
  struct Step {
    int unit;
    LayerChoice more;
  };

  std::vector<LayerChoices> kinds_;  // of units, which are alike in most models
  std::vector<int> kind_of_unit_;
  std::vector<int64_t> most_;      // that the units before each one can free
  std::vector<double> longest_s_;  // that they take
  std::vector<Step> steps_;        // of all units, the cheapest bytes first
  std::shared_ptr<const StageTable> bytes_;
  int64_t limit_bytes_;
  double first_;
  mutable int nodes_left_;
  mutable std::map<int, std::vector<double>> found_;  // by microbatches held; -1: not yet
  /// By the numbers of units of each kind, and the bytes to free.
  mutable std::map<std::pair<std::vector<int>, int64_t>, double> least_;
};

}  // namespace penstock
