// A split as one list of times, of which the length of any path through a program is a sum with
// whole weights: those of its actions and transfers, stage by stage.
//
// Every number is a difference of two sums along the chain, one taken where the stage begins and
// one where it ends, or depends on a cut alone. So the split for which a weighted sum of them is
// least follows from a dynamic programme in stages x units steps.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "planner/bounds/bounds.hpp"
#include "planner/bounds/placement.hpp"
#include "planner/model/rank_speeds.hpp"
#include "planner/paths/split_box.hpp"

namespace penstock {

/// For each stage: seconds of an F, of that of microbatch 0, of an I (a whole B without W), of that
/// of microbatch 0, of a W and of its OPT; its units; seconds of the transfers over the cut before
/// it.
enum class SplitTime {
  forward,
  first_forward,
  input,
  first_input,
  weight,
  optimizer,
  units,
  activations,
  gradients
};
constexpr int split_times = 9;

using Times = std::vector<double>;

double weighted_sum(const Times& weights, const Times& times);

class SplitTimes {
 public:
  /// `costs` are for the fastest rank.
  SplitTimes(const ChainCosts& costs, const Placement& placement, const RankSpeeds& speeds);

  int units() const { return units_; }
  int stages() const { return static_cast<int>(rank_of_stage_.size()); }
  const std::vector<int>& rank_of_stage() const { return rank_of_stage_; }
  /// The place of a stage's time in the list.
  size_t at(SplitTime time, int stage) const {
    return static_cast<size_t>(time) * rank_of_stage_.size() + static_cast<size_t>(stage);
  }
  size_t size() const { return split_times * rank_of_stage_.size(); }

  /// All splits; no stage is empty. Tight.
  SplitBox all() const;
  Times of(const std::vector<int>& begins) const;
  /// The least of each time in a box.
  Times least(const SplitBox& box) const;
  /// Where a stage of so many units may begin: from the first to the last one.
  std::pair<int, int> begins(int stage, int units) const;
  /// Sets a stage's times to the least that they are with so many units, wherever it begins.
  void set_least(int stage, int units, Times& times) const;
  /// One of the times, of a stage that holds [begin, end).
  double of_stage(size_t time, int begin, int end) const;
  /// The unit at which a stage begins, with its share of a mixture.
  struct Place {
    int unit;
    double share;
  };
  /// The mean over a mixture: for each stage the units at which it begins; shares sum to 1.
  Times of(const std::vector<std::vector<Place>>& begins) const;

  /// The part of a weighted sum that depends on where stage `stage` > 0 begins, for each unit of
  /// [low, high]; and the part that depends on no stage's begin.
  std::vector<double> of_begin(const Times& weights, int stage, int low, int high) const;
  double of_begin(const Times& weights, int stage, int unit) const;
  double of_ends(const Times& weights) const;

 private:
  double begin_factor(const Times& weights, int kind, size_t stage) const;

  int units_;
  std::vector<int> rank_of_stage_;
  std::vector<std::vector<double>> sums_;  // by kind: before unit u; of a cut, its own
  std::vector<double> constants_;          // by kind: of a stage, whatever it holds
  Times scale_;                            // each number is so many times what the chain says
};

}  // namespace penstock
