// Splits and what their layers recompute, found together.
//
// Units move from stage to stage and layers choose anew, one or two at a time, drawn at random.
// A change is kept that fits and makes the longest path of the program longer by no more than a
// threshold, which falls to nothing (threshold accepting, Dueck and Scheuer 1990: simulated
// annealing without exponentials, so that it is the same on any machine).
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "planner/paths/program_paths.hpp"

namespace penstock {

class Annealing {
 public:
  /// From a split in which every unit keeps as little as it can, until that takes so much effort;
  /// the same for the same seed. `paths` knows what units may recompute, and outlives it.
  Annealing(const ProgramPaths& paths, std::vector<int> begins, int64_t effort, uint32_t seed);

  /// So much of its effort more; returns what it took.
  int64_t go_on(int64_t effort);
  bool ended() const { return effort_ >= most_effort_; }

  /// The best that it came to: where stages begin, and of each unit its choice, or -1. Infinite
  /// seconds where nothing fits.
  const std::vector<int>& begins() const { return best_.begins; }
  const std::vector<int>& choices() const { return best_.choices; }
  double step_s() const { return best_.step_s; }

 private:
  struct State {
    std::vector<int> begins, choices;
    std::vector<double> longer_s;  // backwards, by stage
    double step_s;
  };
  void changed(size_t rank) {
    if (std::ranges::find(changed_, rank) == changed_.end()) changed_.push_back(rank);
  }
  void change_all();
  int below(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }
  int end(const State& of, int stage) const;
  int unit_of_rank(const State& of, int rank);
  bool choose(State& of, int unit);
  bool move(State& of);
  bool change(State& of);
  double longest_s(State& of);

  const ProgramPaths& paths_;
  const int64_t most_effort_;
  std::mt19937 random_;
  State at_, next_, best_;
  std::vector<size_t> changed_;  // ranks of the next state
  int64_t effort_ = 0;
};

}  // namespace penstock
