// The split of a box for which a weighted sum of its times is least, by a dynamic programme over
// where stages begin, in stages x units steps; and what splits need at least.
#pragma once

#include <vector>

#include "planner/paths/split_box.hpp"
#include "planner/paths/split_memory.hpp"
#include "planner/paths/split_times.hpp"

namespace penstock {

class LeastSplit {
 public:
  /// Keeps to the box's bounds on begins and on units of stages; the box is tight. `memory`, or
  /// null: what it comes to is added to the sum. All of it outlives this.
  LeastSplit(const SplitTimes& times, const Times& weights, const SplitBox& box,
             const SplitMemory::Priced* memory = nullptr);

  const std::vector<int>& begins() const { return begins_; }
  double sum() const { return sum_; }
  /// Narrows bounds on begins and on units of stages by what no split has whose sum is at most so
  /// much; the box may be the one that it is of.
  void narrow(SplitBox& box, double most) const;

 private:
  /// For each stage and each of its begins in the box.
  using Sums = std::vector<std::vector<double>>;

  std::vector<int> follow_back() const;
  Sums behind() const;
  size_t place(size_t stage, int unit) const { return static_cast<size_t>(unit - low_[stage]); }

  const SplitTimes& times_;
  const Times& weights_;
  const SplitMemory::Priced* memory_;
  const std::vector<int> low_;  // of begins
  const Ranges stages_;
  Sums own_, until_;  // of the begin alone, and with those before it
  std::vector<int> begins_;
  double sum_ = 0;
};

/// The needs of all splits with which ranks fit: they are no faster than the mean of a path through
/// each rank, however backwards are made longer to pay for memory at one price, the same for all;
/// and the fullest holds no less than they do in the mean when each of them recomputes all that it
/// can. `path`: the weights of the mean, with the least sum where any split fits.
SplitNeeds needs_of_all(const SplitTimes& times, const SplitMemory& memory, const Times& path);

}  // namespace penstock
