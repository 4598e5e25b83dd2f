// Better splits, found by walking from split to split, by the longest path of each: a split is
// looked at in microseconds, and where nothing but its program delays it it takes exactly that.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "planner/paths/program_paths.hpp"

namespace penstock {

class Walk {
 public:
  /// From a split; the same for the same seed. `paths` outlives it.
  Walk(const ProgramPaths& paths, std::vector<int> begins, uint32_t seed);

  /// Moves one to four units from one stage to another each, drawn at random, and leaves them there
  /// where the longest path is no longer than before; so many times.
  void go_on(int tries);
  /// The effort of `go_on`, as SplitSearch counts it: a path is followed at twenty actions for one.
  int64_t effort(int tries) const { return tries * (1 + paths_.actions() / 20); }

  const std::vector<int>& begins() const { return begins_; }
  double split_s() const { return split_s_; }

 private:
  std::vector<int> moved();

  const ProgramPaths& paths_;
  std::vector<int> begins_;
  double split_s_;
  std::mt19937 random_;
};

}  // namespace penstock
