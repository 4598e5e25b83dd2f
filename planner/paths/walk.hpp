// Better splits, found by walking from split to split, by a bound of each that is had in
// microseconds: the longest path of its program, which it takes exactly where nothing else delays
// it, or what is known without the order of actions.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace penstock {

class Walk {
 public:
  /// The measure of a split, and the effort of taking it, as SplitSearch counts it.
  struct Judge {
    std::function<double(const std::vector<int>&)> split_s;
    int64_t effort = 1;
  };
  /// From a split of so many units; the same for the same seed.
  Walk(Judge judge, int units, std::vector<int> begins, uint32_t seed);

  /// Moves one to four units from one stage to another each, drawn at random, and leaves them there
  /// where the split is judged to be no slower than before; so many times.
  void go_on(int tries);
  /// The effort of all tries so far; one that moves nothing takes hardly any.
  int64_t effort() const { return effort_; }

  const std::vector<int>& begins() const { return begins_; }
  double split_s() const { return split_s_; }

 private:
  std::vector<int> moved();

  Judge judge_;
  int units_;
  std::vector<int> begins_;
  double split_s_;
  int64_t effort_ = 0;
  std::mt19937 random_;
};

}  // namespace penstock
