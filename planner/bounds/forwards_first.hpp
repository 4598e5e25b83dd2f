// The bound of schedules that run all F before any B: all F through the slowest rank or channel,
// and then all B through theirs, each of the two with the stages before and behind it.
#pragma once

#include <functional>
#include <vector>

#include "planner/bounds/bounds.hpp"

namespace penstock {

class ForwardsFirst {
 public:
  /// Seconds of one microbatch: of the first, of the last, and of each while others follow it.
  struct Pass {
    double first, last, every;
  };
  struct Stage {
    Pass forward, backward;
  };
  /// Stage [begin, end), with `left` stages from it on.
  using Measure = std::function<Stage(int begin, int end, int left)>;
  ForwardsFirst(const ChainCosts& costs, int stages, int microbatches, const Measure& measure);

  /// A split whose first stages are given.
  struct Prefix {
    double head = 0, forwards = 0;   // when microbatch 0 has come so far, and when the last has
    double tail = 0, backwards = 0;  // how long the last one takes back, and all of them
  };
  /// Adds a stage that ends there.
  Prefix extend(const Prefix& known, const Stage& stage, int end) const;
  /// The least of all splits that go on with unit `begin` in `left` more stages.
  double least(const Prefix& known, int begin, int left) const;

 private:
  /// The least of all splits of a suffix.
  struct Suffix {
    double last_forward, first_backward;  // sums over its stages and the channels between them
    double forwards, backwards;           // as in Prefix, of all microbatches
  };
  Pass channel(double message_s) const;
  double all(const Pass& pass) const { return pass.first + (microbatches_ - 1) * pass.every; }
  void tabulate(int begin, int left, const Measure& measure);
  size_t index(int begin, int left) const {
    return static_cast<size_t>(left) * static_cast<size_t>(units_ + 1) + static_cast<size_t>(begin);
  }

  int units_, microbatches_;
  double propagation_s_;
  std::vector<double> cut_forward_s_, cut_backward_s_;
  std::vector<Suffix> suffix_;  // by index(begin, left)
};

}  // namespace penstock
