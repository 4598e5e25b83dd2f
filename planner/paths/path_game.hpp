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
  /// it costs so much. `recompute`: the backwards of stages may take longer.
  PathGame(const SplitBox& box, const std::vector<int>& rank_of_stage, int units, double scale,
           bool recompute);
  ~PathGame();

  /// Stage `stage` > 0 may begin with that unit. `seconds`: what that adds to each path, in the
  /// order in which they were added.
  void add_place(int stage, int unit, const std::vector<double>& seconds);
  /// `seconds`: what each place adds, in the order in which they were added; `ends`: what no place
  /// does; `longer`: what a second that the backwards of a stage take longer adds, or empty.
  void add_path(double ends, const std::vector<double>& seconds, const std::vector<double>& longer);
  /// The longer backwards of a rank's stages have to pay for the sum of these, or more.
  void add_memory(int rank, double ends, const std::vector<double>& seconds,
                  const std::vector<double>& longer);
  /// Leaves out the rows that its solution is further from than this; whether each was.
  std::vector<char> drop_far(double seconds);
  /// How the last solution stands to each number: the basis of the simplex method. Paths, with what
  /// is paid for memory, and places are in the order in which they were added.
  struct Basis {
    std::vector<char> limits, rows, places;
  };
  Basis basis() const;
  /// Solves from there next: of a game with as many paths and places.
  void start(const Basis& basis);
  /// False: no mixture is in the box.
  bool solve();
  /// About what solving comes to in the first or second part of a division of ranks or stages, by a
  /// few steps of the solver; infinite where what is known has no mixture in it.
  double estimate(const Division& division, bool second);

  bool recompute() const { return recompute_; }
  /// Rows and columns of all of the solver's steps so far.
  int64_t work() const { return work_; }

  double seconds() const;
  /// The worth of each further unit of a rank: above 0 where it has as few as the box lets it,
  /// below where it has as many.
  std::vector<double> rank_prices() const;
  /// The weights of paths and of what is paid for memory. Never below 0; those of paths sum to 1,
  /// whatever the solver's tolerance.
  std::vector<double> row_weights() const;
  /// The weights of places. Never below 0; those of a cut sum to about 1.
  std::vector<double> place_weights() const;
  /// By how much the backwards of each stage take longer, and what each rank has not paid for all
  /// the same; empty without recompute.
  std::vector<double> longer_s() const;
  std::vector<double> owed_s() const;

 private:
  /// Rows or columns: one by one they take the solver longer than its steps.
  struct Pending {
    std::vector<int> starts{0}, indices;
    std::vector<double> elements, lows, costs;

    int count() const { return static_cast<int>(lows.size()); }
    void add(const std::vector<int>& at, const std::vector<double>& values, double low,
             double cost);
  };

  int stages() const { return static_cast<int>(rank_of_stage_.size()); }
  int stage_row(int stage) const { return stages() - 1 + stage; }
  int rank_row(int rank) const { return 2 * stages() - 1 + rank; }
  int added() const { return static_cast<int>(is_path_.size()); }
  int first_added() const { return rank_row(ranks_); }
  int first_longer() const { return 1 + 2 * ranks_; }
  int first_over() const { return first_longer() + stages(); }
  int first_place() const { return recompute_ ? first_over() + ranks_ : first_longer(); }
  void limit(int row, double low, double high);
  void add_column(const std::vector<int>& rows, const std::vector<double>& elements, double low,
                  double cost);
  void add_pending();
  std::vector<double> solution_s(int first, int count) const;
  void add_row(std::vector<int> columns, std::vector<double> elements, double ends,
               const std::vector<double>& seconds);

  const std::vector<int> rank_of_stage_;
  const int ranks_, units_;
  const double scale_;
  const bool recompute_;
  std::vector<char> is_path_;  // of the rows that were added
  int places_ = 0;
  int64_t work_ = 0;
  std::unique_ptr<ClpSimplex> lp_;
  Pending rows_, columns_;  // which the solver does not know yet: of one kind at a time
};

}  // namespace penstock
