// The splits of one layout, bounded from below: what the search asks of them.
//
// A split is followed from its first stage on. What is known of one whose first stages are given is
// a value, Prefix, that grows stage by stage; every bound of it holds for all ways to go on with
// which every rank fits into its memory.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/bounds/chain_bound.hpp"

namespace penstock {

class SplitSpace {
 public:
  /// Load of the stages of one rank that are known so far. Seconds of a whole step.
  struct RankLoad {
    bool begun = false;
    double forwards_s = 0;   // its F, each stage's after what a microbatch passes before it
    double inputs_s = 0;     // its I or B, each stage's before what a microbatch passes after it
    double backwards_s = 0;  // its I and W, or B
    double optimizer_s = 0;
    int64_t bytes = 0;       // at least, whatever it recomputes
    int64_t kept_bytes = 0;  // without recompute
    int held = 0;            // microbatches of the stage that holds most of them
  };
  struct Prefix {
    ChainBound::Prefix path;
    double head_s = 0;             // of the next stage
    int64_t bytes = 0;             // of the fullest rank so far (MemoryLimit::fullest)
    std::vector<RankLoad> ranks;   // where stages share ranks
    std::vector<double> issued_s;  // by rank: what its host takes for a step (launch_space.hpp)
  };

  virtual ~SplitSpace() = default;
  /// The end of a split's last stage; `begins` and ends are numbers up to it, the first is 0.
  virtual int units() const = 0;
  virtual int stages() const = 0;
  /// The ends that a stage may have which begins with `begin`, of `left` stages from it on;
  /// ascending.
  virtual std::vector<int> ends(int begin, int left) const;

  /// Adds stage [begin, end), with `left` stages from it on. begin = 0: the first of all.
  virtual Prefix extend(const Prefix& known, int begin, int end, int left) const = 0;
  /// No split that goes on with unit `begin` in `left` more stages is faster, in seconds,
  virtual double min_s(const Prefix& known, int begin, int left) const = 0;
  /// … or has a fullest rank with less.
  virtual int64_t min_bytes(const Prefix& known, int begin, int left) const = 0;
  /// The bound of one split; never below min_s of its stages.
  virtual double split_s(const std::vector<int>& begins) const = 0;

  /// Its effort beside that of looking at a split, as SplitSearch counts it.
  virtual int64_t split_effort() const { return 0; }
  /// A bound of one split that is had in microseconds.
  virtual double rough_s(const std::vector<int>& begins) const { return split_s(begins); }

  double min_s() const { return min_s(Prefix{}, 0, stages()); }
  int64_t min_bytes() const { return min_bytes(Prefix{}, 0, stages()); }
  /// How many there are, C(units - 1, stages - 1) of a chain; the largest int64_t where it is more.
  virtual int64_t splits() const;
};

}  // namespace penstock
