// A linear programme that grows: a mixture of places for every cut, whose longest path is shortest.
//
// Its dual is a mixture of paths. Cuts are mixed each by itself; what stages and ranks have is
// asked of the means alone.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "planner/paths/split_box.hpp"

class ClpSimplex;

namespace penstock {

class PathGame {
 public:
  /// `scale`: about how long paths are. Every unit that a rank has more or less than the box lets
  /// it costs so much.
  PathGame(const SplitBox& box, const std::vector<int>& rank_of_stage, int units, double scale);
  ~PathGame();

  /// Stage `stage` > 0 may begin with that unit. `seconds`: what that adds to each path, in the
  /// order in which they were added.
  void add_place(int stage, int unit, const std::vector<double>& seconds);
  /// `seconds`: what each place adds, in the order in which they were added; `ends`: what no place
  /// does.
  void add_path(double ends, const std::vector<double>& seconds);
  /// How the last solution stands to each number: the basis of the simplex method. Paths and places
  /// are in the order in which they were added.
  struct Basis {
    std::vector<char> limits, paths, places;
  };
  Basis basis() const;
  /// Solves from there next: of a game with as many paths and places.
  void start(const Basis& basis);
  void solve();
  /// About what solving comes to in the first or second part of a division of ranks or stages, by a
  /// few steps of the solver; infinite where what is known has no mixture in it.
  double estimate(const Division& division, bool second);

  /// Rows and columns of all of the solver's steps so far.
  int64_t work() const { return work_; }

  double seconds() const;
  /// The worth of each further unit of a rank: above 0 where it has as few as the box lets it,
  /// below where it has as many.
  std::vector<double> rank_prices() const;
  /// Never below 0; they sum to 1, whatever the solver's tolerance.
  std::vector<double> path_weights() const;
  /// Never below 0; those of a cut sum to about 1.
  std::vector<double> place_weights() const;

 private:
  int stages() const { return static_cast<int>(rank_of_stage_.size()); }
  int stage_row(int stage) const { return stages() - 1 + stage; }
  int rank_row(int rank) const { return 2 * stages() - 1 + rank; }
  int first_path() const { return rank_row(ranks_); }
  int first_place() const { return 1 + 2 * ranks_; }
  void limit(int row, double low, double high);

  const std::vector<int> rank_of_stage_;
  const int ranks_, units_;
  const double scale_;
  int paths_ = 0, places_ = 0;
  int64_t work_ = 0;
  std::unique_ptr<ClpSimplex> lp_;
};

}  // namespace penstock
