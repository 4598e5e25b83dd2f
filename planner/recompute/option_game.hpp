// A linear programme that grows: the mixture of options of each rank whose longest path is
// shortest. Its dual is a mixture of paths.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

class ClpSimplex;

namespace penstock {

class OptionGame {
 public:
  explicit OptionGame(int ranks);
  ~OptionGame();

  /// `longer_s`: what it makes each path longer, in the order in which these were added. Returns
  /// the option's number.
  int add_option(int rank, const std::vector<double>& longer_s);
  /// `seconds`: of a path where nothing is recomputed; `longer_s`: what each option makes it
  /// longer.
  void add_path(double seconds, const std::vector<double>& longer_s);
  /// With the options that are allowed, at least one of each rank.
  void solve(const std::vector<char>& allowed);

  /// The longest path's, and an option's share of its rank's mixture, by the last solution.
  double seconds() const;
  double share(int option) const;
  /// Never below 0; they sum to 1, whatever the solver's tolerance.
  std::vector<double> path_weights() const;
  /// Rows and columns of all of the solver's steps so far, and what it copied for each solution.
  int64_t work() const { return work_; }

 private:
  const int ranks_;
  int options_ = 0;
  int64_t work_ = 0;
  std::unique_ptr<ClpSimplex> lp_;
};

}  // namespace penstock
