// A linear programme that grows: a mixture of places for every cut, whose longest path is shortest.
//
// Its dual is a mixture of paths. Cuts are mixed each by itself; that a stage has a unit is asked
// of the means alone.
#pragma once

#include <memory>
#include <vector>

class ClpSimplex;

namespace penstock {

class PathGame {
 public:
  /// `scale`: about how long paths are. Of limit i the mixture is to have at least at_least[i];
  /// what it misses costs `scale` for each unit.
  PathGame(int cuts, double scale, const std::vector<double>& at_least);
  ~PathGame();

  /// A cut may lie before that unit. `values`: what that adds to each limit, and then to each path
  /// in the order in which they were added.
  void add_place(int cut, int unit, const std::vector<double>& values);
  /// `seconds`: what each place adds, in the order in which they were added; `ends`: what no place
  /// does.
  void add_path(double ends, const std::vector<double>& seconds);
  void solve();

  double seconds() const;
  /// Never below 0; those of paths sum to 1, whatever the solver's tolerance.
  std::vector<double> limit_weights() const;
  std::vector<double> path_weights() const;
  /// Never below 0; those of a cut sum to about 1.
  std::vector<double> place_weights() const;

 private:
  int first_path() const { return 2 * cuts_ - 1 + limits_; }

  double scale_;
  int cuts_, limits_, paths_ = 0, places_ = 0;
  std::unique_ptr<ClpSimplex> lp_;
};

}  // namespace penstock
