// Seconds of sets of units on a rank, as differences of sums.
//
// Sets are numbered; each is one before it and one more unit. For a chain set i holds the first i
// units.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/bounds/bounds.hpp"
#include "simulator/adaptive/order_bound.hpp"

namespace penstock {

class WorkSums {
 public:
  /// Set `from` and one more unit.
  struct Grown {
    int from = 0, unit = 0;
  };
  /// The chain's sets 1 … units.
  static std::vector<Grown> prefixes(int units);

  /// `sets`: all but the empty one, which has number 0. Backwards in two parts where
  /// `costs.weight_s` is not empty; whole ones count as I without W.
  WorkSums(const ChainCosts& costs, int microbatches, const std::vector<Grown>& sets);

  /// Seconds of the units that set `end` has more than set `begin`: F and I of all
  /// microbatches, in so many stages.
  double inputs(int begin, int end, int stages) const;
  /// … of these the F alone, in one stage.
  double forwards(int begin, int end) const;
  /// W of all microbatches, in one stage, which runs B or I and W; …
  double weights(int begin, int end) const;
  /// … and in any stages, each unit whatever is faster for it alone.
  double weights_alone(int begin, int end) const;
  /// Seconds of hosts to issue both, in so many stages.
  double issued(int begin, int end, int stages) const;
  /// Once per step.
  double optimizer(int begin, int end) const { return difference(optimizer_, begin, end); }
  double reduce(int begin, int end) const { return difference(reduce_, begin, end); }
  /// One F, I or W, of whatever microbatch takes least, in one stage … Of microbatch 0 it is I that
  /// takes less, and in a whole backward also W: an I may be below 0, but not with its W.
  double forward_once(int begin, int end) const;
  double input_once(int begin, int end) const;
  double weight_once(int begin, int end) const;
  /// … and without what an action takes beside its operators; never below 0.
  double bare_forward(int begin, int end) const;
  double bare_input(int begin, int end) const;
  /// All of these of a stage on a rank of that speed, whose B and I with W are known apart.
  OrderTimes times(int begin, int end, double speed) const;

 private:
  double undecided(int begin, int end) const;
  static double difference(const std::vector<double>& sums, int begin, int end) {
    return sums[static_cast<size_t>(end)] - sums[static_cast<size_t>(begin)];
  }

  int microbatches_;
  bool split_;
  double action_s_, first_action_s_, weight_action_s_, host_actions_s_;
  // By set: of a microbatch after the first, of the first, once per step.
  std::vector<double> forward_, input_, weight_, forward0_, input0_, optimizer_, reduce_, host_;
  std::vector<double> whole_, parts_;  // backwards of either kind; empty: of one kind
};

}  // namespace penstock
