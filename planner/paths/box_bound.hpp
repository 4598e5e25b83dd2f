// The least that the splits of a box take, from mixtures of the program's paths.
//
// For weights w of paths p that sum to 1, and prices of the box's limits on units per rank,
//
//   step >= max over p of length(p) >= sum of w(p) length(p)
//        >= least over splits of (sum of w(p) length(p) + price x what the rank misses)
//
// whatever w is; split_times.hpp has that least. The best mixture is found by double oracle: splits
// answer paths, paths answer splits, and a linear programme mixes what is known of both. Paths
// answer a mixture that is drawn towards the best one known, for optima of what is known alone leap
// about (in-out separation, Ben-Ameur and Neto 2007). The bound does not rest on the solver's
// accuracy, only its sharpness does.
#pragma once

#include <memory>
#include <vector>

#include "planner/paths/program_paths.hpp"
#include "planner/paths/split_times.hpp"

namespace penstock {

/// Splits within bounds on where each stage begins and on how many units each rank has.
struct RankBox {
  SplitBox begins;
  std::vector<int> min_units, max_units;  // by rank
};

class BoxBound {
 public:
  explicit BoxBound(std::shared_ptr<const ProgramPaths> paths) : paths_(std::move(paths)) {}

  const ProgramPaths& paths() const { return *paths_; }
  /// All splits.
  RankBox all() const;

  /// Paths that matter for a box, units at which stages begin, and the times of its best mixture,
  /// to start with for those inside.
  struct Known {
    std::vector<std::shared_ptr<const Times>> paths;
    std::vector<std::vector<int>> places;  // by stage
    Times center;
  };
  struct Bound {
    double seconds = 0;          // no split of the box is faster
    std::vector<double> begins;  // of a good mixture of splits; empty: the box holds no split
    std::vector<double> units;   // of it, by rank
    bool settled = true;         // it is known.center, which lies in the box
    Known known;
    int rounds = 0;
  };
  /// Stops where it is as sharp as it gets, where it comes to what `known.center` takes, or to
  /// `enough_s`. One that has not settled is sharper when it is bounded again, from what it knows.
  Bound bound(const RankBox& box, const Known& known, double enough_s) const;

 private:
  class Search;

  Bound single(const RankBox& box) const;

  std::shared_ptr<const ProgramPaths> paths_;
};

}  // namespace penstock
