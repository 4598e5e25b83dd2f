// The least that the splits of a box take, from mixtures of the program's paths.
//
// For weights w of paths p that sum to 1, and a price of each rank's units,
//
//   step >= max over p of length(p) >= sum of w(p) length(p)
//        >= least over splits of (sum of w(p) length(p) - price x units) + price x bound
//
// whatever w is, where the bound is the fewest units that the rank has in the box for a price
// above 0, and the most for one below; least_split.hpp has that least. The best mixture is found by
// double oracle: splits answer paths, paths answer splits, and a linear programme mixes what is
// known of both. Paths answer a mixture that is drawn towards the best one known, for optima of
// what is known alone leap about (in-out separation, Ben-Ameur and Neto 2007). The bound does not
// rest on the solver's accuracy, only its sharpness does.
//
// That least over the splits alone that begin a stage with a unit, or give it so many, tells which
// of these only splits have that take longer than the best known: the box loses them (reduced-cost
// fixing).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "planner/paths/division_choice.hpp"
#include "planner/paths/known_game.hpp"
#include "planner/paths/program_paths.hpp"
#include "planner/paths/split_box.hpp"
#include "planner/paths/split_times.hpp"

namespace penstock {

class BoxBound {
 public:
  explicit BoxBound(std::shared_ptr<const ProgramPaths> paths) : paths_(std::move(paths)) {}

  const ProgramPaths& paths() const { return *paths_; }
  const std::shared_ptr<const ProgramPaths>& shared_paths() const { return paths_; }
  /// All splits.
  SplitBox all() const { return paths_->times().all(); }

  using Known = KnownGame::Known;
  using PathMixture = std::vector<ProgramPaths::Share>;
  struct Bound {
    double seconds = 0;  // no split of the box is faster
    PathMixture paths;   // with prices of ranks' units, that says so
    /// Holds all splits of it that take `most_s` at most; empty: there are none.
    std::optional<SplitBox> box;
    std::vector<double> begins;     // of a good mixture of splits
    DivisionChoice::Choice choice;  // of how to divide it
    Known known;
    int rounds = 0;
    int64_t solver_work = 0;  // PathGame::work
    bool more = false;        // `most_work` ended it
  };
  /// A bound need not be sharper than `enough_s`, and splits above `most_s` do not count. After
  /// about `most_work` of the solver it may be gone on with from what is known.
  struct Aim {
    double enough_s, most_s;
    int64_t most_work = std::numeric_limits<int64_t>::max();
  };
  /// Stops where it is about as sharp as it gets, or comes to `enough_s`. Several threads may call
  /// it.
  Bound bound(SplitBox box, const Known& known, const Aim& aim, const DivisionChoice& choice) const;

 private:
  class Search;

  std::shared_ptr<const ProgramPaths> paths_;
};

}  // namespace penstock
