// Splits of a model with branches: stages are differences of downsets (branches.hpp). Bounds by the
// load of ranks, and with one stage per rank by what one microbatch passes before and behind a
// stage: the longest path to what the stage is given, and back over what carries a gradient.
#pragma once

#include <memory>
#include <vector>

#include "planner/bounds/placement.hpp"
#include "planner/model/branches.hpp"
#include "planner/model/rank_speeds.hpp"
#include "planner/splits/split_space.hpp"

namespace penstock {

/// A split's `begins` are downsets, the first the empty one.
class DownsetSpace : public SplitSpace {
 public:
  /// `costs` of the chain of the same units, for the fastest rank.
  DownsetSpace(const ChainCosts& costs, std::shared_ptr<const Branches> branches,
               Placement placement, RankSpeeds speeds);

  int units() const override { return branches_->downsets().full(); }
  int stages() const override { return static_cast<int>(placement_.rank_of_stage.size()); }
  std::vector<int> ends(int begin, int left) const override;
  Prefix extend(const Prefix& known, int begin, int end, int left) const override;
  double min_s(const Prefix& known, int begin, int left) const override;
  /// Says nothing of memory: what does not fit is found out by simulation.
  int64_t min_bytes(const Prefix&, int, int) const override { return 0; }
  double split_s(const std::vector<int>& begins) const override;
  int64_t splits() const override { return branches_->splits(stages()); }
  using SplitSpace::min_bytes;
  using SplitSpace::min_s;

 private:
  struct Path {
    double head_s = 0, both_s = 0;  // there, and there and back
  };
  Path before(int begin, int end) const;
  double mean(const Prefix& known, int begin, int left) const;

  std::shared_ptr<const Branches> branches_;
  Placement placement_;
  RankSpeeds speeds_;
  WorkSums sums_;
  std::vector<Path> through_;  // the longest paths that end with a unit
};

}  // namespace penstock
